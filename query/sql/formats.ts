/** The formats of an answer: the engine's name, the media type, and the settings that keep values exact in it. */
export const SQL_FORMATS = {
  json: { engine: 'JSON', mediaType: 'application/json' },
  ndjson: { engine: 'JSONEachRow', mediaType: 'application/x-ndjson' },
  /** Lines {"progress": …}, {"row": …} and, when the query breaks off, {"exception": …}. */
  'ndjson-progress': { engine: 'JSONEachRowWithProgress', mediaType: 'application/x-ndjson' },
  csv: { engine: 'CSVWithNames', mediaType: 'text/csv; charset=utf-8' },
  tsv: { engine: 'TabSeparatedWithNames', mediaType: 'text/tab-separated-values; charset=utf-8' },
  arrow: { engine: 'ArrowStream', mediaType: 'application/vnd.apache.arrow.stream' },
  parquet: { engine: 'Parquet', mediaType: 'application/vnd.apache.parquet' },
} as const;

export type SqlFormat = keyof typeof SQL_FORMATS;
export const SQL_FORMAT_NAMES = Object.keys(SQL_FORMATS) as [SqlFormat, ...SqlFormat[]];

/**
 * In JSON, 64-bit and wider integers are strings (a double cannot hold them) and NaN and the infinities are "nan", "inf", "-inf".
 * Arrow comes uncompressed, which every reader understands. Answers hold no timings: the same data gives the same bytes.
 */
export const FORMAT_SETTINGS: Readonly<Record<string, string | number>> = {
  output_format_json_quote_64bit_integers: 1,
  output_format_json_quote_denormals: 1,
  output_format_arrow_compression_method: 'none',
  output_format_write_statistics: 0,
};
