"""Pages as the three engines write them: shortened, but with the neighbours that a careless reader trips over."""

FASTDEPLOY_PAGE = b"""\
# HELP python_info Python platform information
# TYPE python_info gauge
python_info{implementation="CPython",major="3",minor="10",version="3.10.12"} 1.0
# HELP process_start_time_seconds Start time of the process since unix epoch in seconds.
# TYPE process_start_time_seconds gauge
process_start_time_seconds 1.76402912345e+09
# HELP fastdeploy:num_requests_running Number of requests currently running
# TYPE fastdeploy:num_requests_running gauge
fastdeploy:num_requests_running 12.0
# HELP fastdeploy:num_requests_waiting Number of requests currently waiting
# TYPE fastdeploy:num_requests_waiting gauge
fastdeploy:num_requests_waiting 3.0
# HELP fastdeploy:gpu_cache_usage_perc GPU KV-cache usage. 1 means 100 percent usage
# TYPE fastdeploy:gpu_cache_usage_perc gauge
fastdeploy:gpu_cache_usage_perc 0.4
fastdeploy:prompt_tokens_total 8.1e+06
fastdeploy:generation_tokens_total 900000.0
fastdeploy:time_to_first_token_seconds_bucket{le="0.001"} 0.0
fastdeploy:time_to_first_token_seconds_bucket{le="+Inf"} 51.0
fastdeploy:available_gpu_block_num 1200.0
fastdeploy:free_gpu_block_num 900.0
fastdeploy:max_gpu_block_num 2000.0
fastdeploy:cache_config_info{block_size="64",cache_dtype="bfloat16",enable_prefix_caching="True"} 1.0
"""

VLLM_PAGE = b"""\
# HELP process_start_time_seconds Start time of the process since unix epoch in seconds.
# TYPE process_start_time_seconds gauge
process_start_time_seconds 1.7640301e+09
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="tiny"} 2.0
vllm:num_requests_running{engine="1",model_name="tiny"} 5.0
# HELP vllm:num_requests_waiting Number of requests waiting to be processed.
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="tiny"} 0.0
vllm:num_requests_waiting{engine="1",model_name="tiny"} 1.0
# HELP vllm:num_requests_waiting_by_reason Number of waiting requests by reason.
# TYPE vllm:num_requests_waiting_by_reason gauge
vllm:num_requests_waiting_by_reason{engine="0",model_name="tiny",reason="capacity"} 70.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="tiny",reason="deferred"} 70.0
vllm:kv_cache_usage_perc{engine="0",model_name="tiny"} 0.25
vllm:kv_cache_usage_perc{engine="1",model_name="tiny"} 0.75
vllm:prompt_tokens_total{engine="0",model_name="tiny"} 1000.0
vllm:prompt_tokens_total{engine="1",model_name="tiny"} 2000.0
vllm:prompt_tokens_created{engine="0",model_name="tiny"} 1.7640302e+09
vllm:generation_tokens_total{engine="0",model_name="tiny"} 10.0
vllm:generation_tokens_total{engine="1",model_name="tiny"} 20.0
vllm:cache_config_info{block_size="32",engine="0",kv_cache_size_tokens="524288",num_gpu_blocks="16384"} 1.0
vllm:cache_config_info{block_size="32",engine="1",kv_cache_size_tokens="524288",num_gpu_blocks="16384"} 1.0
"""

VLLM_OLDER_PAGE = b"""\
vllm:num_requests_running{model_name="m"} 1.0
vllm:num_requests_waiting{model_name="m"} 0.0
vllm:gpu_cache_usage_perc{model_name="m"} 0.5
vllm:cache_config_info{block_size="16",num_cpu_blocks="1024",num_gpu_blocks="573",num_gpu_blocks_override="None"} 1.0
"""

SGLANG_PAGE = b"""\
# HELP sglang:num_running_reqs The number of running requests.
# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{dp_rank="0",engine_type="unified",model_name="m",tp_rank="0"} 4.0
sglang:num_running_reqs{dp_rank="0",engine_type="unified",model_name="m",tp_rank="1"} 4.0
sglang:num_running_reqs{dp_rank="1",engine_type="unified",model_name="m",tp_rank="0"} 2.0
sglang:num_running_reqs_offline_batch{model_name="m"} 50.0
sglang:num_queue_reqs{dp_rank="0",model_name="m",priority="",tp_rank="0"} 3.0
sglang:num_queue_reqs{dp_rank="0",model_name="m",priority="0",tp_rank="0"} 1.0
sglang:num_queue_reqs{dp_rank="0",model_name="m",priority="9",tp_rank="0"} 2.0
sglang:token_usage{dp_rank="0",model_name="m",tp_rank="0"} 0.28
sglang:token_usage{dp_rank="1",model_name="m",tp_rank="0"} 0.28
sglang:max_total_num_tokens{dp_rank="0",model_name="m"} 471258.0
sglang:max_total_num_tokens{dp_rank="1",model_name="m"} 471258.0
sglang:prompt_tokens_total{model_name="m"} 8.128902e+06
sglang:generation_tokens_total{model_name="m"} 7.557572e+06
sglang:time_to_first_token_seconds_bucket{le="+Inf",model_name="m"} 11008.0
"""

SGLANG_OLDER_PAGE = b"""\
sglang:cache_config_info{num_pages="1000",page_size="64"} 1.0
sglang:prompt_tokens_total{model_name="m"} 0.0
"""
