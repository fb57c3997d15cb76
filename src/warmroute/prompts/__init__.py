"""What a request body says: model, stream flag, caps, ids, token estimate and the fingerprint of its prompt."""
