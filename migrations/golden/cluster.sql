CREATE DATABASE IF NOT EXISTS `tape` ON CLUSTER `main`;

CREATE TABLE IF NOT EXISTS `tape`.schema_version ON CLUSTER `main` (version UInt32, name String, checksum String, applied DateTime64(6, 'UTC'))
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/all/tape/schema_version', '{shard}-{replica}') ORDER BY version SETTINGS default_compression_codec = 'ZSTD(1)', replicated_deduplication_window = 0;

CREATE TABLE IF NOT EXISTS `tape`.log_index_local ON CLUSTER `main`
(
    status LowCardinality(String),
    reason LowCardinality(Nullable(String)),
    type LowCardinality(String),
    id Nullable(UUID),
    project LowCardinality(String),
    run LowCardinality(String),
    rollout String,
    trace String,
    time Nullable(DateTime64(6, 'UTC')),
    bytes UInt32,
    producer LowCardinality(Nullable(String)),
    producer_epoch Nullable(UInt64),
    producer_seq Nullable(UInt64),
    first_partition Nullable(UInt16),
    first_offset Nullable(UInt64),
    _partition UInt16,
    _offset UInt64,
    _rank UInt8 MATERIALIZED status = 'deleted',
    INDEX by_rollout rollout TYPE bloom_filter(0.01) GRANULARITY 4
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/tape/log_index', '{replica}', _rank)
ORDER BY (_partition, _offset)
SETTINGS default_compression_codec = 'ZSTD(1)', replicated_deduplication_window = 0;

CREATE TABLE IF NOT EXISTS `tape`.log_index ON CLUSTER `main` AS `tape`.log_index_local ENGINE = Distributed(`main`, `tape`, log_index_local, kafkaMurmurHash(toString(_partition)));

CREATE TABLE IF NOT EXISTS `tape`.event_ids_local ON CLUSTER `main`
(
    id UUID,
    hash FixedString(16),
    _partition UInt16,
    _offset UInt64,
    _first UInt64 MATERIALIZED 18446744073709551615 - _offset
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/tape/event_ids', '{replica}', _first)
ORDER BY (id, _partition)
SETTINGS index_granularity = 1024, default_compression_codec = 'ZSTD(1)', replicated_deduplication_window = 0;

CREATE TABLE IF NOT EXISTS `tape`.event_ids ON CLUSTER `main` AS `tape`.event_ids_local ENGINE = Distributed(`main`, `tape`, event_ids_local, kafkaMurmurHash(toString(id)));

CREATE TABLE IF NOT EXISTS `tape`.dead_letters ON CLUSTER `main`
(
    reason LowCardinality(String),
    message String,
    id Nullable(UUID),
    type LowCardinality(String),
    project LowCardinality(String),
    run LowCardinality(String),
    rollout String,
    trace String,
    bytes UInt32,
    raw String,
    first_partition Nullable(UInt16),
    first_offset Nullable(UInt64),
    _partition UInt16,
    _offset UInt64
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/all/tape/dead_letters', '{shard}-{replica}')
ORDER BY (_partition, _offset)
SETTINGS default_compression_codec = 'ZSTD(1)', replicated_deduplication_window = 0;

CREATE TABLE IF NOT EXISTS `tape`.ids_local ON CLUSTER `main`
(
    project LowCardinality(String),
    kind LowCardinality(String),
    id String,
    run LowCardinality(String),
    rollout String,
    _partition UInt16,
    _offset UInt64,
    _first UInt64 MATERIALIZED 18446744073709551615 - _offset
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/tape/ids', '{replica}', _first)
ORDER BY (project, kind, id, run, rollout)
SETTINGS default_compression_codec = 'ZSTD(1)', replicated_deduplication_window = 0;

CREATE TABLE IF NOT EXISTS `tape`.ids ON CLUSTER `main` AS `tape`.ids_local ENGINE = Distributed(`main`, `tape`, ids_local, kafkaMurmurHash(toString(id)));

CREATE TABLE IF NOT EXISTS `tape`.tombstones ON CLUSTER `main`
(
    project LowCardinality(String),
    run LowCardinality(String),
    id UUID,
    reason Nullable(String),
    time DateTime64(6, 'UTC'),
    _partition UInt16,
    _offset UInt64,
    _first UInt64 MATERIALIZED 18446744073709551615 - _offset
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/all/tape/tombstones', '{shard}-{replica}', _first)
ORDER BY (project, run)
SETTINGS default_compression_codec = 'ZSTD(1)', replicated_deduplication_window = 0;

CREATE TABLE IF NOT EXISTS `tape`.retention ON CLUSTER `main`
(
    project LowCardinality(String),
    id UUID,
    days Nullable(UInt64),
    time DateTime64(6, 'UTC'),
    _partition UInt16,
    _offset UInt64
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/all/tape/retention', '{shard}-{replica}')
ORDER BY (project, _partition, _offset)
SETTINGS default_compression_codec = 'ZSTD(1)', replicated_deduplication_window = 0;

CREATE TABLE IF NOT EXISTS `tape`.projects ON CLUSTER `main`
(
    project LowCardinality(String),
    database String,
    views String
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/all/tape/projects', '{shard}-{replica}')
ORDER BY (project)
SETTINGS default_compression_codec = 'ZSTD(1)', replicated_deduplication_window = 0;

CREATE TABLE IF NOT EXISTS `tape`.progress ON CLUSTER `main`
(
    task LowCardinality(String),
    _partition UInt16,
    _offset UInt64
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/all/tape/progress', '{shard}-{replica}', _offset)
ORDER BY (task, _partition)
SETTINGS default_compression_codec = 'ZSTD(1)', replicated_deduplication_window = 0;

CREATE TABLE IF NOT EXISTS `tape`.nodes_local ON CLUSTER `main`
(
    project LowCardinality(String),
    run LowCardinality(String),
    rollout String,
    trace String,
    `index` UInt32,
    parent Nullable(UInt32),
    role LowCardinality(String),
    sampled Bool,
    tokens Nullable(UInt64),
    sampled_tokens Nullable(UInt64),
    policy_version_min Nullable(UInt64),
    policy_version_max Nullable(UInt64),
    call Nullable(UInt32),
    time DateTime64(6, 'UTC'),
    _hash FixedString(16),
    _partition UInt16,
    _offset UInt64,
    _first UInt64 MATERIALIZED 18446744073709551615 - _offset,
    INDEX by_trace trace TYPE bloom_filter(0.01) GRANULARITY 4
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/tape/nodes', '{replica}', _first)
ORDER BY (project, run, rollout, trace, `index`)
SETTINGS index_granularity = 512, default_compression_codec = 'ZSTD(1)', replicated_deduplication_window = 0;

CREATE TABLE IF NOT EXISTS `tape`.nodes ON CLUSTER `main` AS `tape`.nodes_local ENGINE = Distributed(`main`, `tape`, nodes_local, kafkaMurmurHash(toString(rollout)));

CREATE TABLE IF NOT EXISTS `tape`.node_payloads_local ON CLUSTER `main`
(
    project LowCardinality(String),
    run LowCardinality(String),
    rollout String,
    trace String,
    `index` UInt32,
    parent Nullable(UInt32),
    role LowCardinality(String),
    sampled Bool,
    tokens Nullable(UInt64),
    sampled_tokens Nullable(UInt64),
    policy_version Nullable(UInt64),
    call Nullable(UInt32),
    fork_reason LowCardinality(Nullable(String)),
    attribution LowCardinality(Nullable(String)),
    partial Nullable(Bool),
    time DateTime64(6, 'UTC'),
    text Nullable(String),
    reasoning Nullable(String),
    tool_call_id Nullable(String),
    tool_call_ids Array(String),
    tool_call_names Array(String),
    tool_call_arguments Array(String),
    _message Nullable(String),
    _text_at Nullable(UInt32),
    _reasoning_at Nullable(UInt32),
    _streams UInt8,
    token_ids Array(UInt32),
    mask Array(UInt8),
    is_content Array(UInt8),
    logprobs Array(Float32) CODEC(LZ4),
    reference_logprobs Array(Float32),
    advantages Array(Float32),
    loss_weight_names Array(String),
    loss_weights Array(Array(Float32)),
    policy_run_lengths Array(UInt64),
    policy_run_versions Array(UInt64),
    routed_experts Nullable(String),
    top_logprobs Nullable(String),
    extra Nullable(String),
    rest Nullable(String),
    _partition UInt16,
    _offset UInt64,
    _first UInt64 MATERIALIZED 18446744073709551615 - _offset,
    INDEX by_trace trace TYPE bloom_filter(0.01) GRANULARITY 4,
    INDEX by_offset _offset TYPE minmax GRANULARITY 64
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/tape/node_payloads', '{replica}', _first)
ORDER BY (project, run, rollout, trace, `index`)
SETTINGS min_bytes_for_wide_part = 1073741824, min_parts_to_merge_at_once = 12, max_bytes_to_merge_at_max_space_in_pool = 536870912, default_compression_codec = 'ZSTD(1)', replicated_deduplication_window = 0;

CREATE TABLE IF NOT EXISTS `tape`.node_payloads ON CLUSTER `main` AS `tape`.node_payloads_local ENGINE = Distributed(`main`, `tape`, node_payloads_local, kafkaMurmurHash(toString(rollout)));

CREATE TABLE IF NOT EXISTS `tape`.node_search_local ON CLUSTER `main`
(
    project LowCardinality(String),
    run LowCardinality(String),
    rollout String,
    trace String,
    `index` UInt32,
    role LowCardinality(String),
    text String,
    _partition UInt16,
    _offset UInt64,
    _first UInt64 MATERIALIZED 18446744073709551615 - _offset,
    INDEX words text TYPE text(tokenizer = splitByNonAlpha)
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/tape/node_search', '{replica}', _first)
ORDER BY (project, run, rollout, trace, `index`)
SETTINGS default_compression_codec = 'ZSTD(1)', replicated_deduplication_window = 0;

CREATE TABLE IF NOT EXISTS `tape`.node_search ON CLUSTER `main` AS `tape`.node_search_local ENGINE = Distributed(`main`, `tape`, node_search_local, kafkaMurmurHash(toString(rollout)));

CREATE TABLE IF NOT EXISTS `tape`.calls_local ON CLUSTER `main`
(
    project LowCardinality(String),
    run LowCardinality(String),
    rollout String,
    trace String,
    `index` UInt32,
    node Nullable(UInt32),
    model LowCardinality(Nullable(String)),
    endpoint LowCardinality(Nullable(String)),
    dialect LowCardinality(Nullable(String)),
    sampling Nullable(String),
    request_digest Nullable(String),
    finish_reason LowCardinality(Nullable(String)),
    prompt_tokens Nullable(UInt64),
    completion_tokens Nullable(UInt64),
    cached_tokens Nullable(UInt64),
    reasoning_tokens Nullable(UInt64),
    cost Nullable(Float64),
    started Nullable(DateTime64(6, 'UTC')),
    first_token Nullable(DateTime64(6, 'UTC')),
    ended Nullable(DateTime64(6, 'UTC')),
    policy_version Nullable(UInt64),
    policy_version_end Nullable(UInt64),
    logprobs_mode LowCardinality(Nullable(String)),
    tokenizer_hash LowCardinality(Nullable(String)),
    template_hash LowCardinality(Nullable(String)),
    stream Nullable(Bool),
    extends Nullable(Bool),
    drift Nullable(String),
    retry_of Nullable(UInt32),
    error_type LowCardinality(Nullable(String)),
    error_status Nullable(Int64),
    error_message Nullable(String),
    time DateTime64(6, 'UTC'),
    _hash FixedString(16),
    _partition UInt16,
    _offset UInt64,
    _first UInt64 MATERIALIZED 18446744073709551615 - _offset,
    INDEX by_trace trace TYPE bloom_filter(0.01) GRANULARITY 4
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/tape/calls', '{replica}', _first)
ORDER BY (project, run, rollout, trace, `index`)
SETTINGS index_granularity = 512, default_compression_codec = 'ZSTD(1)', replicated_deduplication_window = 0;

CREATE TABLE IF NOT EXISTS `tape`.calls ON CLUSTER `main` AS `tape`.calls_local ENGINE = Distributed(`main`, `tape`, calls_local, kafkaMurmurHash(toString(rollout)));

CREATE TABLE IF NOT EXISTS `tape`.call_payloads_local ON CLUSTER `main`
(
    project LowCardinality(String),
    run LowCardinality(String),
    rollout String,
    trace String,
    `index` UInt32,
    data String,
    _partition UInt16,
    _offset UInt64,
    _first UInt64 MATERIALIZED 18446744073709551615 - _offset,
    INDEX by_trace trace TYPE bloom_filter(0.01) GRANULARITY 4
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/tape/call_payloads', '{replica}', _first)
ORDER BY (project, run, rollout, trace, `index`)
SETTINGS min_bytes_for_wide_part = 1073741824, min_parts_to_merge_at_once = 12, max_bytes_to_merge_at_max_space_in_pool = 536870912, default_compression_codec = 'ZSTD(1)', replicated_deduplication_window = 0;

CREATE TABLE IF NOT EXISTS `tape`.call_payloads ON CLUSTER `main` AS `tape`.call_payloads_local ENGINE = Distributed(`main`, `tape`, call_payloads_local, kafkaMurmurHash(toString(rollout)));

CREATE TABLE IF NOT EXISTS `tape`.tools_local ON CLUSTER `main`
(
    project LowCardinality(String),
    run LowCardinality(String),
    rollout String,
    trace String,
    tool_call_id String,
    _node UInt32,
    name LowCardinality(String),
    result_node Nullable(UInt32),
    started Nullable(DateTime64(6, 'UTC')),
    ended Nullable(DateTime64(6, 'UTC')),
    error_type LowCardinality(Nullable(String)),
    error_status Nullable(Int64),
    error Nullable(String),
    extra Nullable(String),
    time DateTime64(6, 'UTC'),
    _hash FixedString(16),
    _partition UInt16,
    _offset UInt64,
    _first UInt64 MATERIALIZED 18446744073709551615 - _offset
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/tape/tools', '{replica}', _first)
ORDER BY (project, run, rollout, trace, tool_call_id, _node)
SETTINGS index_granularity = 512, default_compression_codec = 'ZSTD(1)', replicated_deduplication_window = 0;

CREATE TABLE IF NOT EXISTS `tape`.tools ON CLUSTER `main` AS `tape`.tools_local ENGINE = Distributed(`main`, `tape`, tools_local, kafkaMurmurHash(toString(rollout)));

CREATE TABLE IF NOT EXISTS `tape`.links_local ON CLUSTER `main`
(
    project LowCardinality(String),
    run LowCardinality(String),
    rollout String,
    from_trace String,
    _from_node UInt32,
    to_trace String,
    _to_node UInt32,
    type LowCardinality(String),
    extra Nullable(String),
    time DateTime64(6, 'UTC'),
    _partition UInt16,
    _offset UInt64,
    _first UInt64 MATERIALIZED 18446744073709551615 - _offset
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/tape/links', '{replica}', _first)
ORDER BY (project, run, rollout, from_trace, _from_node, to_trace, _to_node, type)
SETTINGS default_compression_codec = 'ZSTD(1)', replicated_deduplication_window = 0;

CREATE TABLE IF NOT EXISTS `tape`.links ON CLUSTER `main` AS `tape`.links_local ENGINE = Distributed(`main`, `tape`, links_local, kafkaMurmurHash(toString(rollout)));

CREATE TABLE IF NOT EXISTS `tape`.errors_local ON CLUSTER `main`
(
    project LowCardinality(String),
    run LowCardinality(String),
    rollout String,
    trace String,
    `group` String,
    id UUID,
    scope LowCardinality(String),
    node Nullable(UInt32),
    type LowCardinality(String),
    message String,
    status_code Nullable(Int64),
    traceback Nullable(String),
    extra Nullable(String),
    time DateTime64(6, 'UTC'),
    _partition UInt16,
    _offset UInt64,
    _first UInt64 MATERIALIZED 18446744073709551615 - _offset
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/tape/errors', '{replica}', _first)
ORDER BY (project, run, rollout, trace, `group`, id)
SETTINGS index_granularity = 512, default_compression_codec = 'ZSTD(1)', replicated_deduplication_window = 0;

CREATE TABLE IF NOT EXISTS `tape`.errors ON CLUSTER `main` AS `tape`.errors_local ENGINE = Distributed(`main`, `tape`, errors_local, kafkaMurmurHash(toString(rollout)));

CREATE TABLE IF NOT EXISTS `tape`.notes_local ON CLUSTER `main`
(
    project LowCardinality(String),
    run LowCardinality(String),
    rollout String,
    trace String,
    `group` String,
    id UUID,
    scope LowCardinality(String),
    node Nullable(UInt32),
    label LowCardinality(Nullable(String)),
    text Nullable(String),
    author LowCardinality(Nullable(String)),
    extra Nullable(String),
    time DateTime64(6, 'UTC'),
    _partition UInt16,
    _offset UInt64,
    _first UInt64 MATERIALIZED 18446744073709551615 - _offset
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/tape/notes', '{replica}', _first)
ORDER BY (project, run, rollout, trace, `group`, id)
SETTINGS default_compression_codec = 'ZSTD(1)', replicated_deduplication_window = 0;

CREATE TABLE IF NOT EXISTS `tape`.notes ON CLUSTER `main` AS `tape`.notes_local ENGINE = Distributed(`main`, `tape`, notes_local, kafkaMurmurHash(toString(rollout)));

CREATE TABLE IF NOT EXISTS `tape`.run_events ON CLUSTER `main`
(
    project LowCardinality(String),
    run LowCardinality(String),
    id UUID,
    type LowCardinality(String),
    kind LowCardinality(Nullable(String)),
    name Nullable(String),
    model Nullable(String),
    config Nullable(String),
    envs Nullable(String),
    tags Nullable(String),
    status LowCardinality(Nullable(String)),
    ended Nullable(DateTime64(6, 'UTC')),
    metrics Nullable(String),
    extra Nullable(String),
    time DateTime64(6, 'UTC'),
    _partition UInt16,
    _offset UInt64
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/all/tape/run_events', '{shard}-{replica}')
ORDER BY (project, run, _partition, _offset)
SETTINGS default_compression_codec = 'ZSTD(1)', replicated_deduplication_window = 0;

CREATE TABLE IF NOT EXISTS `tape`.group_events ON CLUSTER `main`
(
    project LowCardinality(String),
    run LowCardinality(String),
    `group` String,
    id UUID,
    type LowCardinality(String),
    rollout String,
    size Nullable(UInt64),
    sealed_size Nullable(UInt64),
    sealed Nullable(DateTime64(6, 'UTC')),
    reason LowCardinality(Nullable(String)),
    env LowCardinality(Nullable(String)),
    task_key Nullable(String),
    extra Nullable(String),
    time DateTime64(6, 'UTC'),
    _partition UInt16,
    _offset UInt64
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/all/tape/group_events', '{shard}-{replica}')
ORDER BY (project, run, `group`, _partition, _offset)
SETTINGS default_compression_codec = 'ZSTD(1)', replicated_deduplication_window = 0;

CREATE TABLE IF NOT EXISTS `tape`.rollout_events_local ON CLUSTER `main`
(
    project LowCardinality(String),
    run LowCardinality(String),
    rollout String,
    id UUID,
    type LowCardinality(String),
    `group` Nullable(String),
    env LowCardinality(Nullable(String)),
    env_name LowCardinality(Nullable(String)),
    task_type LowCardinality(Nullable(String)),
    task_key Nullable(String),
    task_hash Nullable(String),
    work_type LowCardinality(Nullable(String)),
    step Nullable(UInt64),
    policy_version Nullable(UInt64),
    policy_version_end Nullable(UInt64),
    attempt Nullable(UInt64),
    parent_rollout Nullable(String),
    fork_trace Nullable(String),
    fork_node Nullable(UInt32),
    mirror_of Nullable(String),
    started Nullable(DateTime64(6, 'UTC')),
    ok Nullable(Bool),
    stop_condition LowCardinality(Nullable(String)),
    traces Nullable(UInt64),
    ended Nullable(DateTime64(6, 'UTC')),
    cancelled LowCardinality(Nullable(String)),
    time DateTime64(6, 'UTC'),
    _partition UInt16,
    _offset UInt64
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/tape/rollout_events', '{replica}')
ORDER BY (project, run, rollout, _partition, _offset)
SETTINGS index_granularity = 512, default_compression_codec = 'ZSTD(1)', replicated_deduplication_window = 0;

CREATE TABLE IF NOT EXISTS `tape`.rollout_events ON CLUSTER `main` AS `tape`.rollout_events_local ENGINE = Distributed(`main`, `tape`, rollout_events_local, kafkaMurmurHash(toString(rollout)));

CREATE TABLE IF NOT EXISTS `tape`.rollout_payloads_local ON CLUSTER `main`
(
    project LowCardinality(String),
    run LowCardinality(String),
    rollout String,
    type LowCardinality(String),
    data String,
    _partition UInt16,
    _offset UInt64
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/tape/rollout_payloads', '{replica}')
ORDER BY (project, run, rollout, _partition, _offset)
SETTINGS min_bytes_for_wide_part = 1073741824, min_parts_to_merge_at_once = 12, max_bytes_to_merge_at_max_space_in_pool = 536870912, default_compression_codec = 'ZSTD(1)', replicated_deduplication_window = 0;

CREATE TABLE IF NOT EXISTS `tape`.rollout_payloads ON CLUSTER `main` AS `tape`.rollout_payloads_local ENGINE = Distributed(`main`, `tape`, rollout_payloads_local, kafkaMurmurHash(toString(rollout)));

CREATE TABLE IF NOT EXISTS `tape`.trace_events_local ON CLUSTER `main`
(
    project LowCardinality(String),
    run LowCardinality(String),
    rollout String,
    trace String,
    id UUID,
    type LowCardinality(String),
    agent LowCardinality(Nullable(String)),
    model LowCardinality(Nullable(String)),
    trainable Nullable(Bool),
    mirror_of Nullable(String),
    started Nullable(DateTime64(6, 'UTC')),
    ok Nullable(Bool),
    stop_condition LowCardinality(Nullable(String)),
    truncated Nullable(Bool),
    nodes Nullable(UInt64),
    calls Nullable(UInt64),
    ended Nullable(DateTime64(6, 'UTC')),
    time DateTime64(6, 'UTC'),
    _partition UInt16,
    _offset UInt64,
    INDEX by_trace trace TYPE bloom_filter(0.01) GRANULARITY 4
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/tape/trace_events', '{replica}')
ORDER BY (project, run, rollout, trace, _partition, _offset)
SETTINGS index_granularity = 512, default_compression_codec = 'ZSTD(1)', replicated_deduplication_window = 0;

CREATE TABLE IF NOT EXISTS `tape`.trace_events ON CLUSTER `main` AS `tape`.trace_events_local ENGINE = Distributed(`main`, `tape`, trace_events_local, kafkaMurmurHash(toString(rollout)));

CREATE TABLE IF NOT EXISTS `tape`.trace_payloads_local ON CLUSTER `main`
(
    project LowCardinality(String),
    run LowCardinality(String),
    rollout String,
    trace String,
    type LowCardinality(String),
    data String,
    _partition UInt16,
    _offset UInt64
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/tape/trace_payloads', '{replica}')
ORDER BY (project, run, rollout, trace, _partition, _offset)
SETTINGS min_bytes_for_wide_part = 1073741824, min_parts_to_merge_at_once = 12, max_bytes_to_merge_at_max_space_in_pool = 536870912, default_compression_codec = 'ZSTD(1)', replicated_deduplication_window = 0;

CREATE TABLE IF NOT EXISTS `tape`.trace_payloads ON CLUSTER `main` AS `tape`.trace_payloads_local ENGINE = Distributed(`main`, `tape`, trace_payloads_local, kafkaMurmurHash(toString(rollout)));

CREATE TABLE IF NOT EXISTS `tape`.reward_events_local ON CLUSTER `main`
(
    project LowCardinality(String),
    run LowCardinality(String),
    rollout String,
    scope LowCardinality(String),
    trace String,
    _node UInt32,
    name LowCardinality(String),
    `group` Nullable(String),
    id UUID,
    score Nullable(Float64),
    weight Nullable(Float64),
    source_kind LowCardinality(Nullable(String)),
    source_name LowCardinality(Nullable(String)),
    source_version LowCardinality(Nullable(String)),
    supersedes Nullable(UUID),
    extra Nullable(String),
    time DateTime64(6, 'UTC'),
    _partition UInt16,
    _offset UInt64
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/tape/reward_events', '{replica}')
ORDER BY (project, run, rollout, scope, trace, _node, name, _partition, _offset)
SETTINGS index_granularity = 512, default_compression_codec = 'ZSTD(1)', replicated_deduplication_window = 0;

CREATE TABLE IF NOT EXISTS `tape`.reward_events ON CLUSTER `main` AS `tape`.reward_events_local ENGINE = Distributed(`main`, `tape`, reward_events_local, kafkaMurmurHash(toString(rollout)));

CREATE TABLE IF NOT EXISTS `tape`.metric_events_local ON CLUSTER `main`
(
    project LowCardinality(String),
    run LowCardinality(String),
    rollout String,
    scope LowCardinality(String),
    `group` String,
    trace String,
    _node UInt32,
    name LowCardinality(String),
    id UUID,
    value Nullable(Float64),
    extra Nullable(String),
    time DateTime64(6, 'UTC'),
    _partition UInt16,
    _offset UInt64
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/tape/metric_events', '{replica}')
ORDER BY (project, run, rollout, scope, `group`, trace, _node, name, _partition, _offset)
SETTINGS default_compression_codec = 'ZSTD(1)', replicated_deduplication_window = 0;

CREATE TABLE IF NOT EXISTS `tape`.metric_events ON CLUSTER `main` AS `tape`.metric_events_local ENGINE = Distributed(`main`, `tape`, metric_events_local, kafkaMurmurHash(toString(rollout)));

CREATE TABLE IF NOT EXISTS `tape`.policies ON CLUSTER `main`
(
    project LowCardinality(String),
    run LowCardinality(String),
    version UInt64,
    timeline UInt64,
    id UUID,
    step Nullable(UInt64),
    uri Nullable(String),
    trainer LowCardinality(Nullable(String)),
    extra Nullable(String),
    time DateTime64(6, 'UTC'),
    _partition UInt16,
    _offset UInt64
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/all/tape/policies', '{shard}-{replica}')
ORDER BY (project, run, version, timeline, _partition, _offset)
SETTINGS default_compression_codec = 'ZSTD(1)', replicated_deduplication_window = 0;

CREATE TABLE IF NOT EXISTS `tape`.trainer_steps ON CLUSTER `main`
(
    project LowCardinality(String),
    run LowCardinality(String),
    feed String,
    timeline UInt64,
    step UInt64,
    id UUID,
    batch Nullable(String),
    metrics String,
    extra Nullable(String),
    time DateTime64(6, 'UTC'),
    _partition UInt16,
    _offset UInt64
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/all/tape/trainer_steps', '{shard}-{replica}')
ORDER BY (project, run, feed, timeline, step, _partition, _offset)
SETTINGS default_compression_codec = 'ZSTD(1)', replicated_deduplication_window = 0;

CREATE TABLE IF NOT EXISTS `tape`.reference_scores_local ON CLUSTER `main`
(
    project LowCardinality(String),
    run LowCardinality(String),
    rollout String,
    trace String,
    node UInt32,
    source LowCardinality(String),
    version LowCardinality(Nullable(String)),
    id UUID,
    logprobs Array(Float32),
    extra Nullable(String),
    time DateTime64(6, 'UTC'),
    _partition UInt16,
    _offset UInt64
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/tape/reference_scores', '{replica}')
ORDER BY (project, run, rollout, trace, node, source, _partition, _offset)
SETTINGS default_compression_codec = 'ZSTD(1)', replicated_deduplication_window = 0;

CREATE TABLE IF NOT EXISTS `tape`.reference_scores ON CLUSTER `main` AS `tape`.reference_scores_local ENGINE = Distributed(`main`, `tape`, reference_scores_local, kafkaMurmurHash(toString(rollout)));

CREATE TABLE IF NOT EXISTS `tape`.trainer_annotations_local ON CLUSTER `main`
(
    project LowCardinality(String),
    run LowCardinality(String),
    rollout String,
    trace String,
    leaf UInt32,
    feed String,
    timeline UInt64,
    step Nullable(UInt64),
    id UUID,
    _streams UInt8,
    trainer_logprobs Array(Float32),
    entropies Array(Float32),
    is_masked Array(UInt8),
    extra Nullable(String),
    time DateTime64(6, 'UTC'),
    _partition UInt16,
    _offset UInt64
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/tape/trainer_annotations', '{replica}')
ORDER BY (project, run, rollout, trace, leaf, feed, timeline, _partition, _offset)
SETTINGS default_compression_codec = 'ZSTD(1)', replicated_deduplication_window = 0;

CREATE TABLE IF NOT EXISTS `tape`.trainer_annotations ON CLUSTER `main` AS `tape`.trainer_annotations_local ENGINE = Distributed(`main`, `tape`, trainer_annotations_local, kafkaMurmurHash(toString(rollout)));

CREATE TABLE IF NOT EXISTS `tape`.feed_events ON CLUSTER `main`
(
    project LowCardinality(String),
    feed String,
    run LowCardinality(String),
    id UUID,
    type LowCardinality(String),
    timeline UInt64,
    n Nullable(UInt64),
    batch_id Nullable(String),
    algorithm LowCardinality(Nullable(String)),
    policy_version Nullable(UInt64),
    holder Nullable(String),
    plan_id Nullable(String),
    step Nullable(UInt64),
    expires Nullable(DateTime64(6, 'UTC')),
    reason Nullable(String),
    `group` Nullable(String),
    rewound_from Nullable(UInt64),
    rewound_to Nullable(UInt64),
    mode LowCardinality(Nullable(String)),
    data String,
    time DateTime64(6, 'UTC'),
    _partition UInt16,
    _offset UInt64
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/all/tape/feed_events', '{shard}-{replica}')
ORDER BY (project, feed, _partition, _offset)
SETTINGS default_compression_codec = 'ZSTD(1)', replicated_deduplication_window = 0;

CREATE TABLE IF NOT EXISTS `tape`.batch_rows ON CLUSTER `main`
(
    project LowCardinality(String),
    feed String,
    timeline UInt64,
    n UInt64,
    row_id String,
    batch_id String,
    run LowCardinality(String),
    rollout String,
    trace String,
    leaf UInt32,
    `group` Nullable(String),
    env LowCardinality(String),
    seq_len Nullable(UInt64),
    trained Nullable(UInt64),
    advantage Nullable(Float64),
    weights Nullable(String),
    reward Nullable(Float64),
    policy_version_min Nullable(UInt64),
    policy_version_max Nullable(UInt64),
    staleness Nullable(Float64),
    _partition UInt16,
    _offset UInt64,
    _first UInt64 MATERIALIZED 18446744073709551615 - _offset
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/all/tape/batch_rows', '{shard}-{replica}', _first)
ORDER BY (project, feed, timeline, n, row_id)
SETTINGS default_compression_codec = 'ZSTD(1)', replicated_deduplication_window = 0;

CREATE TABLE IF NOT EXISTS `tape`.batch_places ON CLUSTER `main`
(
    project LowCardinality(String),
    feed String,
    timeline UInt64,
    n UInt64,
    plan_id String,
    row_id String,
    rank UInt32,
    micro_batch UInt32,
    position UInt32,
    _partition UInt16,
    _offset UInt64,
    _first UInt64 MATERIALIZED 18446744073709551615 - _offset
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/all/tape/batch_places', '{shard}-{replica}', _first)
ORDER BY (project, feed, timeline, n, plan_id, row_id)
SETTINGS default_compression_codec = 'ZSTD(1)', replicated_deduplication_window = 0;

CREATE TABLE IF NOT EXISTS `tape`.dropped_samples ON CLUSTER `main`
(
    project LowCardinality(String),
    feed String,
    timeline UInt64,
    run LowCardinality(String),
    rollout String,
    trace String,
    _leaf UInt32,
    _item UInt32,
    id UUID,
    n Nullable(UInt64),
    batch_id Nullable(String),
    `group` Nullable(String),
    reason LowCardinality(String),
    message Nullable(String),
    staleness Nullable(Float64),
    length Nullable(UInt64),
    extra Nullable(String),
    time DateTime64(6, 'UTC'),
    _partition UInt16,
    _offset UInt64
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/all/tape/dropped_samples', '{shard}-{replica}')
ORDER BY (project, feed, timeline, _partition, _offset, _item)
SETTINGS default_compression_codec = 'ZSTD(1)', replicated_deduplication_window = 0;

CREATE TABLE IF NOT EXISTS `tape`.rollout_summary_local ON CLUSTER `main`
(
    project LowCardinality(String),
    run LowCardinality(String),
    rollout String,
    `group` Nullable(String),
    env LowCardinality(Nullable(String)),
    env_name LowCardinality(Nullable(String)),
    task_type LowCardinality(Nullable(String)),
    task_key Nullable(String),
    task_hash Nullable(String),
    work_type LowCardinality(Nullable(String)),
    attempt Nullable(UInt64),
    parent_rollout Nullable(String),
    fork_trace Nullable(String),
    fork_node Nullable(UInt32),
    mirror_of Nullable(String),
    step Nullable(UInt64),
    policy_version_min Nullable(UInt64),
    policy_version_max Nullable(UInt64),
    ok Nullable(Bool),
    stop_condition LowCardinality(Nullable(String)),
    cancelled LowCardinality(Nullable(String)),
    truncated Nullable(Bool),
    reward Nullable(Float64),
    rewards UInt64,
    rewards_missing UInt64,
    input_tokens Nullable(UInt64),
    output_tokens Nullable(UInt64),
    traces UInt64,
    nodes UInt64,
    calls UInt64,
    turns UInt64,
    branches UInt64,
    cost Nullable(Float64),
    errors UInt64,
    error_type LowCardinality(Nullable(String)),
    started Nullable(DateTime64(6, 'UTC')),
    ended Nullable(DateTime64(6, 'UTC')),
    _version UInt64
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/tape/rollout_summary', '{replica}', _version)
ORDER BY (project, run, rollout)
SETTINGS index_granularity = 512, default_compression_codec = 'ZSTD(1)', replicated_deduplication_window = 0;

CREATE TABLE IF NOT EXISTS `tape`.rollout_summary ON CLUSTER `main` AS `tape`.rollout_summary_local ENGINE = Distributed(`main`, `tape`, rollout_summary_local, kafkaMurmurHash(toString(rollout)));

CREATE TABLE IF NOT EXISTS `tape`.trace_summary_local ON CLUSTER `main`
(
    project LowCardinality(String),
    run LowCardinality(String),
    rollout String,
    trace String,
    `group` Nullable(String),
    env LowCardinality(Nullable(String)),
    task_key Nullable(String),
    agent LowCardinality(Nullable(String)),
    model LowCardinality(Nullable(String)),
    trainable Nullable(Bool),
    mirror_of Nullable(String),
    policy_version_min Nullable(UInt64),
    policy_version_max Nullable(UInt64),
    ok Nullable(Bool),
    stop_condition LowCardinality(Nullable(String)),
    truncated Nullable(Bool),
    reward Nullable(Float64),
    rewards UInt64,
    rewards_missing UInt64,
    input_tokens Nullable(UInt64),
    output_tokens Nullable(UInt64),
    nodes UInt64,
    calls UInt64,
    turns UInt64,
    branches UInt64,
    cost Nullable(Float64),
    errors UInt64,
    error_type LowCardinality(Nullable(String)),
    started Nullable(DateTime64(6, 'UTC')),
    ended Nullable(DateTime64(6, 'UTC')),
    _version UInt64,
    INDEX by_trace trace TYPE bloom_filter(0.01) GRANULARITY 4
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/tape/trace_summary', '{replica}', _version)
ORDER BY (project, run, rollout, trace)
SETTINGS index_granularity = 512, default_compression_codec = 'ZSTD(1)', replicated_deduplication_window = 0;

CREATE TABLE IF NOT EXISTS `tape`.trace_summary ON CLUSTER `main` AS `tape`.trace_summary_local ENGINE = Distributed(`main`, `tape`, trace_summary_local, kafkaMurmurHash(toString(rollout)));

ALTER TABLE `tape`.event_ids_local ON CLUSTER `main` ADD COLUMN IF NOT EXISTS project LowCardinality(String), MODIFY ORDER BY (id, _partition, project);

ALTER TABLE `tape`.event_ids_local ON CLUSTER `main` ADD COLUMN IF NOT EXISTS project LowCardinality(String);

ALTER TABLE `tape`.event_ids ON CLUSTER `main` ADD COLUMN IF NOT EXISTS project LowCardinality(String);

INSERT INTO `tape`.ids (project, kind, id, run, rollout, _partition, _offset)
SETTINGS async_insert = 0, deduplicate_insert = 'disable', distributed_foreground_insert = 1
SELECT project, 'run', run, run, toString(_partition), _partition, min(_offset) FROM `tape`.ids WHERE kind = 'rollout' GROUP BY project, run, _partition;

CREATE DATABASE IF NOT EXISTS `p_default` ON CLUSTER `main`;

CREATE OR REPLACE VIEW `p_default`.`runs` ON CLUSTER `main` DEFINER = CURRENT_USER SQL SECURITY DEFINER AS SELECT t.`project` AS `project`, t.`run` AS `run`, argMaxIf(t.kind, (t._offset, t._partition), t.kind IS NOT NULL) AS `kind`, argMaxIf(t.name, (t._offset, t._partition), t.name IS NOT NULL) AS `name`, argMaxIf(t.model, (t._offset, t._partition), t.model IS NOT NULL) AS `model`, argMaxIf(t.config, (t._offset, t._partition), t.config IS NOT NULL) AS `config`, argMaxIf(t.envs, (t._offset, t._partition), t.envs IS NOT NULL) AS `envs`, JSONExtract(ifNull(argMaxIf(t.tags, (t._offset, t._partition), t.tags IS NOT NULL), '[]'), 'Array(String)') AS `tags`, minIf(nullIf(t.time, toDateTime64(0, 6, 'UTC')), t.type = 'run.started') AS `started`, if(countIf(t.type = 'run.ended') = 0, NULL, ifNull(argMaxIf(t.ended, (t._offset, t._partition), t.ended IS NOT NULL), maxIf(nullIf(t.time, toDateTime64(0, 6, 'UTC')), t.type = 'run.ended'))) AS `ended`, multiIf(countIf(t.type = 'run.ended') > 0, argMaxIf(t.status, (t._offset, t._partition), t.status IS NOT NULL), countIf(t.type = 'run.started') > 0, 'running', NULL) AS `status`, argMaxIf(t.metrics, (t._offset, t._partition), t.metrics IS NOT NULL) AS `metrics` FROM (SELECT project, run, type, kind, name, model, config, envs, tags, status, ended, metrics, toNullable(time) AS time, _offset, _partition FROM `tape`.run_events FINAL WHERE project = 'default' UNION ALL SELECT DISTINCT project, run, '', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0 FROM `tape`.ids WHERE project = 'default' AND kind = 'run') AS t GROUP BY t.project, t.run SETTINGS join_use_nulls = 1;

CREATE OR REPLACE VIEW `p_default`.`groups` ON CLUSTER `main` DEFINER = CURRENT_USER SQL SECURITY DEFINER AS SELECT t.`project` AS `project`, t.`run` AS `run`, t.`group` AS `group`, argMaxIf(t.task_key, (t._offset, t._partition), t.task_key IS NOT NULL) AS `task_key`, argMaxIf(t.env, (t._offset, t._partition), t.env IS NOT NULL) AS `env`, ifNull(argMaxIf(t.sealed_size, (t._offset, t._partition), t.sealed_size IS NOT NULL), max(t.size)) AS `size`, argMaxIf(t.sealed, (t._offset, t._partition), t.sealed IS NOT NULL) AS `sealed`, argMaxIf(t.reason, (t._offset, t._partition), t.reason IS NOT NULL) AS `reason`, sum(t.rollout_count) AS `rollouts`, if(count(t.reward) = 0, NULL, if(min(t.reward) = max(t.reward), min(t.reward), (arraySum(arraySort(groupArray(t.reward))) / count(t.reward)))) AS `reward_mean`, multiIf(count(t.reward) < 2, NULL, min(t.reward) = max(t.reward), 0., sqrt(arraySum(x -> (x - (arraySum(arraySort(groupArray(t.reward))) / count(t.reward))) * (x - (arraySum(arraySort(groupArray(t.reward))) / count(t.reward))), arraySort(groupArray(t.reward))) / (count(t.reward) - 1))) AS `reward_std`, if(count(t.reward) = 0, NULL, countIf(t.reward >= 1)) AS `solved` FROM (SELECT project, run, `group`, task_key, env, size, sealed_size, sealed, reason, CAST(NULL, 'Nullable(Float64)') AS reward, toUInt64(0) AS rollout_count, _offset, _partition FROM `tape`.group_events FINAL WHERE project = 'default' UNION ALL SELECT project, run, assumeNotNull(`group`), NULL, NULL, NULL, NULL, NULL, NULL, reward, 1, 0, 0 FROM `tape`.rollout_summary AS t FINAL WHERE t.project = 'default' AND isNotNull(`group`) AND (isNull(t.mirror_of) OR assumeNotNull(t.mirror_of) GLOBAL NOT IN (SELECT id FROM `tape`.ids WHERE project = 'default' AND kind IN ('rollout', 'trace') AND id GLOBAL IN (SELECT id FROM `tape`.ids WHERE project = 'default' AND kind = 'rollout_mirror')))) AS t GROUP BY t.project, t.run, t.`group` SETTINGS join_use_nulls = 1;
