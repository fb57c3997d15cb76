"""A load generator for any OpenAI endpoint: recorded or synthetic conversations, closed or open loop, measured."""
