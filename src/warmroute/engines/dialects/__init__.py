"""One module per engine: how its prefill and decode engines are made to work on one request."""
