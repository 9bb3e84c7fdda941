-- The tables. Macros ({{…}}) are explained in migrations/render.ts. Applied files are never edited: a change is a new file.
-- Every table is a ReplacingMergeTree without PARTITION BY and idempotent by its key. `_first` makes the first version in log order win.
-- Keys that end in _partition, _offset keep one row per event, so that history stays and "as of" is a filter.

CREATE TABLE IF NOT EXISTS {{table log_index}}
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
ENGINE = {{engine _rank}}
ORDER BY (_partition, _offset)
SETTINGS {{settings}};

{{distributed log_index _partition}};

CREATE TABLE IF NOT EXISTS {{table event_ids}}
(
    id UUID,
    hash FixedString(16),
    _partition UInt16,
    _offset UInt64,
    _first UInt64 MATERIALIZED 18446744073709551615 - _offset
)
ENGINE = {{engine _first}}
ORDER BY (id, _partition)
SETTINGS index_granularity = 1024, {{settings}};

{{distributed event_ids id}};

CREATE TABLE IF NOT EXISTS {{table dead_letters}}
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
ENGINE = {{everywhere}}
ORDER BY (_partition, _offset)
SETTINGS {{settings}};

{{distributed dead_letters}};

CREATE TABLE IF NOT EXISTS {{table ids}}
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
ENGINE = {{engine _first}}
ORDER BY (project, kind, id, run, rollout)
SETTINGS {{settings}};

{{distributed ids id}};

CREATE TABLE IF NOT EXISTS {{table tombstones}}
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
ENGINE = {{everywhere _first}}
ORDER BY (project, run)
SETTINGS {{settings}};

{{distributed tombstones}};

CREATE TABLE IF NOT EXISTS {{table retention}}
(
    project LowCardinality(String),
    id UUID,
    days Nullable(UInt64),
    time DateTime64(6, 'UTC'),
    _partition UInt16,
    _offset UInt64
)
ENGINE = {{everywhere}}
ORDER BY (project, _partition, _offset)
SETTINGS {{settings}};

{{distributed retention}};

CREATE TABLE IF NOT EXISTS {{table projects}}
(
    project LowCardinality(String),
    database String,
    views String
)
ENGINE = {{everywhere}}
ORDER BY (project)
SETTINGS {{settings}};

{{distributed projects}};

CREATE TABLE IF NOT EXISTS {{table progress}}
(
    task LowCardinality(String),
    _partition UInt16,
    _offset UInt64
)
ENGINE = {{everywhere _offset}}
ORDER BY (task, _partition)
SETTINGS {{settings}};

{{distributed progress}};

CREATE TABLE IF NOT EXISTS {{table nodes}}
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
ENGINE = {{engine _first}}
ORDER BY (project, run, rollout, trace, `index`)
SETTINGS index_granularity = 512, {{settings}};

{{distributed nodes rollout}};

CREATE TABLE IF NOT EXISTS {{table node_payloads}}
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
ENGINE = {{engine _first}}
ORDER BY (project, run, rollout, trace, `index`)
SETTINGS {{payload_settings}}, {{settings}};

{{distributed node_payloads rollout}};

CREATE TABLE IF NOT EXISTS {{table node_search}}
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
ENGINE = {{engine _first}}
ORDER BY (project, run, rollout, trace, `index`)
SETTINGS {{settings}};

{{distributed node_search rollout}};

CREATE TABLE IF NOT EXISTS {{table calls}}
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
ENGINE = {{engine _first}}
ORDER BY (project, run, rollout, trace, `index`)
SETTINGS index_granularity = 512, {{settings}};

{{distributed calls rollout}};

CREATE TABLE IF NOT EXISTS {{table call_payloads}}
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
ENGINE = {{engine _first}}
ORDER BY (project, run, rollout, trace, `index`)
SETTINGS {{payload_settings}}, {{settings}};

{{distributed call_payloads rollout}};

CREATE TABLE IF NOT EXISTS {{table tools}}
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
ENGINE = {{engine _first}}
ORDER BY (project, run, rollout, trace, tool_call_id, _node)
SETTINGS index_granularity = 512, {{settings}};

{{distributed tools rollout}};

CREATE TABLE IF NOT EXISTS {{table links}}
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
ENGINE = {{engine _first}}
ORDER BY (project, run, rollout, from_trace, _from_node, to_trace, _to_node, type)
SETTINGS {{settings}};

{{distributed links rollout}};

CREATE TABLE IF NOT EXISTS {{table errors}}
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
ENGINE = {{engine _first}}
ORDER BY (project, run, rollout, trace, `group`, id)
SETTINGS index_granularity = 512, {{settings}};

{{distributed errors rollout}};

CREATE TABLE IF NOT EXISTS {{table notes}}
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
ENGINE = {{engine _first}}
ORDER BY (project, run, rollout, trace, `group`, id)
SETTINGS {{settings}};

{{distributed notes rollout}};

CREATE TABLE IF NOT EXISTS {{table run_events}}
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
ENGINE = {{everywhere}}
ORDER BY (project, run, _partition, _offset)
SETTINGS {{settings}};

{{distributed run_events}};

CREATE TABLE IF NOT EXISTS {{table group_events}}
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
ENGINE = {{everywhere}}
ORDER BY (project, run, `group`, _partition, _offset)
SETTINGS {{settings}};

{{distributed group_events}};

CREATE TABLE IF NOT EXISTS {{table rollout_events}}
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
ENGINE = {{engine}}
ORDER BY (project, run, rollout, _partition, _offset)
SETTINGS index_granularity = 512, {{settings}};

{{distributed rollout_events rollout}};

CREATE TABLE IF NOT EXISTS {{table rollout_payloads}}
(
    project LowCardinality(String),
    run LowCardinality(String),
    rollout String,
    type LowCardinality(String),
    data String,
    _partition UInt16,
    _offset UInt64
)
ENGINE = {{engine}}
ORDER BY (project, run, rollout, _partition, _offset)
SETTINGS {{payload_settings}}, {{settings}};

{{distributed rollout_payloads rollout}};

CREATE TABLE IF NOT EXISTS {{table trace_events}}
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
ENGINE = {{engine}}
ORDER BY (project, run, rollout, trace, _partition, _offset)
SETTINGS index_granularity = 512, {{settings}};

{{distributed trace_events rollout}};

CREATE TABLE IF NOT EXISTS {{table trace_payloads}}
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
ENGINE = {{engine}}
ORDER BY (project, run, rollout, trace, _partition, _offset)
SETTINGS {{payload_settings}}, {{settings}};

{{distributed trace_payloads rollout}};

CREATE TABLE IF NOT EXISTS {{table reward_events}}
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
ENGINE = {{engine}}
ORDER BY (project, run, rollout, scope, trace, _node, name, _partition, _offset)
SETTINGS index_granularity = 512, {{settings}};

{{distributed reward_events rollout}};

CREATE TABLE IF NOT EXISTS {{table metric_events}}
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
ENGINE = {{engine}}
ORDER BY (project, run, rollout, scope, `group`, trace, _node, name, _partition, _offset)
SETTINGS {{settings}};

{{distributed metric_events rollout}};

CREATE TABLE IF NOT EXISTS {{table policies}}
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
ENGINE = {{everywhere}}
ORDER BY (project, run, version, timeline, _partition, _offset)
SETTINGS {{settings}};

{{distributed policies}};

CREATE TABLE IF NOT EXISTS {{table trainer_steps}}
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
ENGINE = {{everywhere}}
ORDER BY (project, run, feed, timeline, step, _partition, _offset)
SETTINGS {{settings}};

{{distributed trainer_steps}};

CREATE TABLE IF NOT EXISTS {{table reference_scores}}
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
ENGINE = {{engine}}
ORDER BY (project, run, rollout, trace, node, source, _partition, _offset)
SETTINGS {{settings}};

{{distributed reference_scores rollout}};

CREATE TABLE IF NOT EXISTS {{table trainer_annotations}}
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
ENGINE = {{engine}}
ORDER BY (project, run, rollout, trace, leaf, feed, timeline, _partition, _offset)
SETTINGS {{settings}};

{{distributed trainer_annotations rollout}};

CREATE TABLE IF NOT EXISTS {{table feed_events}}
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
ENGINE = {{everywhere}}
ORDER BY (project, feed, _partition, _offset)
SETTINGS {{settings}};

{{distributed feed_events}};

CREATE TABLE IF NOT EXISTS {{table batch_rows}}
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
ENGINE = {{everywhere _first}}
ORDER BY (project, feed, timeline, n, row_id)
SETTINGS {{settings}};

{{distributed batch_rows}};

CREATE TABLE IF NOT EXISTS {{table batch_places}}
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
ENGINE = {{everywhere _first}}
ORDER BY (project, feed, timeline, n, plan_id, row_id)
SETTINGS {{settings}};

{{distributed batch_places}};

CREATE TABLE IF NOT EXISTS {{table dropped_samples}}
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
ENGINE = {{everywhere}}
ORDER BY (project, feed, timeline, _partition, _offset, _item)
SETTINGS {{settings}};

{{distributed dropped_samples}};

CREATE TABLE IF NOT EXISTS {{table rollout_summary}}
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
ENGINE = {{engine _version}}
ORDER BY (project, run, rollout)
SETTINGS index_granularity = 512, {{settings}};

{{distributed rollout_summary rollout}};

CREATE TABLE IF NOT EXISTS {{table trace_summary}}
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
ENGINE = {{engine _version}}
ORDER BY (project, run, rollout, trace)
SETTINGS index_granularity = 512, {{settings}};

{{distributed trace_summary rollout}};

