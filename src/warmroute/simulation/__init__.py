"""A simulated inference engine and a load generator: everything here is a model, nothing computes a language model.

`start_engine` runs an engine on loopback for the demo, the tests and for trying the router without a GPU.
"""
