from tests.control.conftest import eventually


async def test_models_of_all_workers_stand_in_one_openai_list(control, start_engine):
    first, second = await start_engine(models=("llama", "shared")), await start_engine(models=("qwen", "shared"))
    assert (await control.get("/v1/models")).body == {"object": "list", "data": []}
    await control.add(first, second)
    answer = await control.get("/v1/models")
    assert answer.status == 200
    assert answer.body == {
        "object": "list",
        "data": [
            {"id": "llama", "object": "model", "owned_by": first.id},
            {"id": "qwen", "object": "model", "owned_by": second.id},
            {"id": "shared", "object": "model", "owned_by": first.id},
        ],
    }


async def test_models_of_an_unhealthy_worker_are_not_offered(control, start_engine):
    sound, ill = await start_engine(models=("llama",)), await start_engine(models=("qwen",))
    await control.add(sound, ill)
    ill.healthy = False

    async def only_llama():
        return [card["id"] for card in (await control.get("/v1/models")).body["data"]] == ["llama"]

    await eventually(only_llama)
