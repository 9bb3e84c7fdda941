/** Rows of any resource as Arrow, Parquet or NDJSON, made by the store itself and streamed. */
import type { ColumnStore } from '../../store/columns/column-store.ts';
import { positionText } from '../positions/log-position.ts';
import { ARROW_SETTINGS } from '../graph/skeleton.ts';
import { asOfPosition, readsSummaries, SETTINGS } from '../lists/read-list.ts';
import { orderSql } from '../lists/sort.ts';
import { statementOf } from '../lists/statement.ts';
import type { ExportFormat } from './export-format.ts';

const TIMEOUT_MS = 3_600_000;
const NAMES = {
  arrow: { format: 'ArrowStream', extension: 'arrows', mediaType: 'application/vnd.apache.arrow.stream', about: 'rows as an Arrow IPC stream' },
  parquet: { format: 'Parquet', extension: 'parquet', mediaType: 'application/vnd.apache.parquet', about: 'rows as a Parquet file' },
  ndjson: { format: 'JSONEachRow', extension: 'ndjson', mediaType: 'application/x-ndjson', about: 'rows as lines of JSON; 64-bit integers and NaN as strings' },
} as const; // prettier-ignore
const FORMAT_SETTINGS = {
  ...ARROW_SETTINGS,
  // what every reader of Parquet understands
  output_format_parquet_compression_method: 'snappy',
  output_format_parquet_string_as_string: 1,
  output_format_json_quote_64bit_integers: 1,
  output_format_json_quote_denormals: 1,
  // lists of a whole project are sorted on disk where memory ends
  max_bytes_before_external_sort: 512 * 1024 * 1024,
  max_result_bytes: 0,
} as const;

export function rowsFormats(store: ColumnStore): ExportFormat[] {
  return Object.entries(NAMES).map(([name, { format, ...rest }]) => ({
    name,
    ...rest,
    of: null,
    write: async ({ project, list, wanted }, sink, signal) => {
      const options = { signal, timeoutMs: TIMEOUT_MS, settings: { ...SETTINGS, ...FORMAT_SETTINGS } };
      let open: AsyncIterator<Uint8Array> | null = null;
      const asOf = await asOfPosition(store, { project, isSummary: readsSummaries(list), wanted, options }, async (at) => {
        await open?.return?.();
        const { sql, params } = statementOf(list, at, [...list.fields, ...list.sort.map((key) => key.field)], () => ({
          select: list.fields.map((field) => `${field.sql} AS ${quoted(field.name)}`).join(', '),
          rest: `ORDER BY ${orderSql(list.sort)}`,
        }));
        // what a query reads is fixed when its first bytes are there
        const { body } = await store.stream(sql, format, { ...options, params: params.values() });
        open = body[Symbol.asyncIterator]();
        return positionText(at.position);
      });
      const source = open as unknown as AsyncIterator<Uint8Array>; // the callback has set it
      for (let next = await source.next(); next.done !== true; next = await source.next()) await sink.write(next.value);
      return { asOf, left: {}, incomplete: [] };
    },
  }));
}

/** A column name; a named reward may hold any character. */
function quoted(name: string): string {
  return `\`${name.replaceAll('\\', '\\\\').replaceAll('`', '\\`')}\``;
}
