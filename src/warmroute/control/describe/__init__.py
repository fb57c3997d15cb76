"""The control side described as OpenAPI: what is asked for, what is answered, and the pages at /docs."""
