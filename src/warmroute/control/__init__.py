"""Everything over HTTP that is not inference: registration, workers, health, metrics, models, abort."""
