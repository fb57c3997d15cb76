"""The KV events of vLLM and SGLang: from the bytes of a message to `scheduling.kv_events`.

`batch` reads a message, `positional` and `mapped` are the two encodings of an event, `fields` is what both mean.
Nothing here is trusted: an event that cannot be read is skipped and counted, the others of its batch are not lost.
"""
