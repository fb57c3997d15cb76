from warmroute.control.merge import merge_abort_replies


def reply(aborted=(), not_found=()):
    return {"request_id": "control-1", "result": {"aborted": list(aborted), "not_found": list(not_found)}}


def test_an_id_is_not_found_only_if_no_worker_aborted_it():
    replies = {"a": reply(["x"], ["y", "z"]), "b": reply(["y"], ["x", "z"])}
    assert merge_abort_replies(["x", "y", "z"], replies, {}) == {"aborted": ["x", "y"], "not_found": ["z"]}


def test_entries_of_aborted_pass_as_they_came_and_their_ids_count():
    entry = {"request_id": "chatcmpl-1", "generated_tokens": 12}
    replies = {"a": reply([entry]), "b": reply([], ["chatcmpl-1"])}
    assert merge_abort_replies(["chatcmpl-1"], replies, {}) == {"aborted": [entry], "not_found": []}


def test_the_choices_of_a_request_count_for_its_id():
    replies = {"a": reply(["chatcmpl-1_0", "chatcmpl-1_1"]), "b": reply([], ["chatcmpl-1"])}
    assert merge_abort_replies(["chatcmpl-1"], replies, {})["not_found"] == []


def test_failures_are_listed_by_worker():
    merged = merge_abort_replies(
        ["x"], {"a": reply([], ["x"])}, {"http://c:1": "HTTP 404", "http://b:1": "cannot connect"}
    )
    assert merged == {
        "aborted": [],
        "not_found": ["x"],
        "errors": [
            {"server": "http://b:1", "error": "cannot connect"},
            {"server": "http://c:1", "error": "HTTP 404"},
        ],
    }


def test_without_workers_nothing_is_found():
    assert merge_abort_replies(["x", "y"], {}, {}) == {"aborted": [], "not_found": ["x", "y"]}


def test_replies_without_a_usable_result_add_nothing():
    odd = [None, [], "text", 3, {}, {"result": None}, {"result": []}, {"result": {"aborted": "x", "not_found": 3}}]
    odd += [{"result": {"not_found": [None, 3, {}]}}]
    assert merge_abort_replies(["x"], dict(enumerate(odd)), {}) == {"aborted": [], "not_found": []}
