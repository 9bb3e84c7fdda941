/**
 * Settings that clients send, as a server with `readonly = 2` and constraints takes them: those that shape the answer are passed on, limits may be narrowed, what concerns
 * writing or the connection is taken without effect (a client must be able to send what it always sends), and everything else is refused by name.
 */
import { fail, ok, type Result } from '../../base/result.ts';
import type { SqlLimits } from '../sql/limits.ts';

/** They change how values are written, ordered or cut into blocks; none reads or writes anything else. */
export const PASSED_ON: ReadonlySet<string> = new Set([
  'extremes', 'limit', 'offset', 'session_timezone', 'join_use_nulls', 'group_by_use_nulls', 'transform_null_in',
  'aggregate_functions_null_for_empty', 'union_default_mode', 'except_default_mode', 'intersect_default_mode', 'prefer_column_name_to_alias', 'date_time_output_format',
  'interval_output_format', 'bool_true_representation', 'bool_false_representation', 'decimal_trailing_zeros', 'cast_keep_nullable', 'format_csv_delimiter',
  'format_csv_null_representation', 'format_tsv_null_representation', 'format_binary_max_string_size', 'output_format_json_quote_64bit_integers',
  'output_format_json_quote_64bit_floats', 'output_format_json_quote_denormals', 'output_format_json_quote_decimals', 'output_format_json_named_tuples_as_objects',
  'output_format_json_skip_null_value_in_named_tuples', 'output_format_json_array_of_rows', 'output_format_json_escape_forward_slashes',
  'output_format_json_map_as_array_of_tuples', 'output_format_json_validate_utf8', 'output_format_json_pretty_print', 'output_format_csv_crlf_end_of_line',
  'output_format_csv_serialize_tuple_into_separate_columns', 'output_format_tsv_crlf_end_of_line', 'output_format_write_statistics', 'output_format_decimal_trailing_zeros',
  'output_format_arrow_string_as_string', 'output_format_arrow_low_cardinality_as_dictionary', 'output_format_arrow_use_64_bit_indexes_for_dictionary',
  'output_format_arrow_use_signed_indexes_for_dictionary', 'output_format_arrow_fixed_string_as_fixed_byte_array', 'output_format_arrow_compression_method',
  'output_format_parquet_compression_method', 'output_format_parquet_string_as_string', 'output_format_parquet_row_group_size',
  'output_format_parquet_version', 'output_format_orc_compression_method', 'output_format_orc_string_as_string', 'output_format_avro_codec',
  'output_format_native_encode_types_in_binary_format', 'output_format_native_write_json_as_string', 'output_format_binary_encode_types_in_binary_format',
  'output_format_binary_write_json_as_string', 'output_format_pretty_max_rows', 'output_format_pretty_max_column_pad_width', 'output_format_pretty_max_value_width',
  'output_format_pretty_color', 'output_format_pretty_grid_charset', 'output_format_pretty_row_numbers', 'output_format_sql_insert_table_name',
  'output_format_sql_insert_include_column_names', 'output_format_sql_insert_max_batch_size', 'output_format_enable_streaming', 'output_format_parallel_formatting',
]); // prettier-ignore

/** Taken and not carried out: they are about inserts, the log of queries, or the connection, or the client cannot do without sending them. */
const WITHOUT_EFFECT: ReadonlySet<string> = new Set([
  'async_insert', 'wait_for_async_insert', 'async_insert_busy_timeout_ms', 'async_insert_max_data_size', 'insert_deduplicate', 'insert_deduplication_token', 'insert_quorum',
  'insert_quorum_timeout', 'insert_distributed_sync', 'date_time_input_format', 'cast_string_to_dynamic_use_inference', 'input_format_skip_unknown_fields',
  'input_format_import_nested_json', 'input_format_null_as_default', 'input_format_native_decode_types_in_binary_format', 'max_insert_block_size', 'max_query_size',
  'max_ast_depth', 'max_ast_elements', 'max_expanded_ast_elements', 'max_parser_depth', 'log_comment', 'log_queries', 'send_logs_level', 'send_timeout', 'receive_timeout',
  'connect_timeout', 'connect_timeout_with_failover_ms', 'http_connection_timeout', 'http_send_timeout', 'http_receive_timeout', 'http_write_exception_in_output_format',
  'http_response_buffer_size', 'enable_http_compression', 'http_response_headers', 'add_http_cors_header', 'load_balancing', 'replication_alter_partitions_sync',
  'alter_sync', 'mutations_sync', 'select_sequential_consistency', 'allow_experimental_analyzer', 'enable_analyzer', 'use_query_cache', 'priority', 'poll_interval',
  'max_result_bytes_before_throw', 'result_overflow_mode', 'read_overflow_mode', 'timeout_overflow_mode', 'allow_experimental_json_type', 'enable_json_type',
  'allow_experimental_variant_type', 'allow_experimental_dynamic_type', 'enable_variant_type', 'enable_dynamic_type', 'describe_include_subcolumns', 'show_table_uuid_in_table_create_query_if_not_nil',
]); // prettier-ignore

/** Passed on up to a bound, beyond which they cost memory or threads for nothing. */
const CAPPED: Readonly<Record<string, number>> = { max_threads: 16, max_block_size: 1_000_000 };

type Narrow = (limits: SqlLimits, value: number) => SqlLimits;
const least = (limit: number, value: number): number => (value > 0 ? Math.min(limit, value) : limit);

/** They can be lowered; 0, which means "no limit", leaves the limit of the server. */
const NARROWING: Readonly<Record<string, Narrow>> = {
  max_execution_time: (limits, value) => ({ ...limits, timeoutMs: least(limits.timeoutMs, Math.ceil(value * 1000)) }),
  max_memory_usage: (limits, value) => ({ ...limits, memoryBytes: least(limits.memoryBytes, value) }),
  max_rows_to_read: (limits, value) => ({ ...limits, readRows: least(limits.readRows, value) }),
  max_bytes_to_read: (limits, value) => ({ ...limits, readBytes: least(limits.readBytes, value) }),
  max_result_rows: (limits, value) => ({ ...limits, resultRows: least(limits.resultRows, value) }),
  max_result_bytes: (limits, value) => ({ ...limits, resultBytes: least(limits.resultBytes, value) }),
};

/** Names that `system.settings` shows as changeable. */
export const CHANGEABLE: readonly string[] = [...PASSED_ON, ...WITHOUT_EFFECT, ...Object.keys(CAPPED), ...Object.keys(NARROWING)];

const MAX_VALUE = 1_000;

export type Applied = {
  readonly limits: SqlLimits;
  readonly settings: Readonly<Record<string, string | number>>;
};

/** `field` of a problem is the name of the setting. */
export function applySettings(given: Iterable<readonly [string, string]>, limits: SqlLimits): Result<Applied> {
  let narrowed = limits;
  const settings: Record<string, string | number> = {};
  const all = new Map(given);
  for (const [name, value] of all) {
    if (value.length > MAX_VALUE)
      return fail('bad_request', `the value of the setting ${name} is longer than ${MAX_VALUE} characters`, name);
    const narrow = NARROWING[name];
    const cap = CAPPED[name];
    const number = Number(value);
    if ((narrow !== undefined || cap !== undefined) && (!Number.isFinite(number) || number < 0))
      return fail('bad_request', `the setting ${name} must be a number`, name);
    if (narrow !== undefined) narrowed = narrow(narrowed, number);
    else if (cap !== undefined) settings[name] = Math.min(number, cap);
    else if (PASSED_ON.has(name)) settings[name] = value;
    else if (name === 'readonly') {
      if (value !== '1' && value !== '2') return fail('sql_refused', "Cannot modify 'readonly' setting: this interface is read-only", name);
    } else if (!WITHOUT_EFFECT.has(name)) return fail('sql_refused', `Setting ${name} should not be changed`, name);
  }
  return ok({ limits: narrowed, settings: { ...settings, ...breakMode(all, limits) } });
}

/**
 * A client that wants only the first rows says so by a limit of its own with `result_overflow_mode = 'break'`. A limit of the server stays an error: an answer that it made
 * shorter would look whole. Bytes are counted on their way out.
 */
function breakMode(given: ReadonlyMap<string, string>, limits: SqlLimits): Record<string, string | number> {
  const rows = Number(given.get('max_result_rows') ?? 0);
  const asks = given.get('result_overflow_mode') === 'break' && rows > 0 && rows <= limits.resultRows;
  return asks ? { result_overflow_mode: 'break', max_result_bytes: 0 } : {};
}
