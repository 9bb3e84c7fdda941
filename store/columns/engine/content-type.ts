const TYPES: Readonly<Record<string, string>> = {
  JSON: 'application/json; charset=UTF-8',
  JSONCompact: 'application/json; charset=UTF-8',
  JSONStrings: 'application/json; charset=UTF-8',
  JSONCompactStrings: 'application/json; charset=UTF-8',
  JSONColumns: 'application/json; charset=UTF-8',
  JSONCompactColumns: 'application/json; charset=UTF-8',
  JSONColumnsWithMetadata: 'application/json; charset=UTF-8',
  JSONObjectEachRow: 'application/json; charset=UTF-8',
  CSV: 'text/csv; charset=UTF-8; header=absent',
  CSVWithNames: 'text/csv; charset=UTF-8; header=present',
  CSVWithNamesAndTypes: 'text/csv; charset=UTF-8; header=present',
  Arrow: 'application/vnd.apache.arrow.file',
  ArrowStream: 'application/vnd.apache.arrow.stream',
  Parquet: 'application/vnd.apache.parquet',
  XML: 'application/xml; charset=UTF-8',
  HTML: 'text/html; charset=UTF-8',
  Markdown: 'text/markdown; charset=UTF-8',
};

/** The media type of a format, as a ClickHouse server names it where it names one. */
export function contentTypeOf(format: string): string {
  const known = TYPES[format];
  if (known !== undefined) return known;
  if (/^JSON.*EachRow/.test(format) || format === 'NDJSON' || format === 'JSONLines') return 'application/x-ndjson; charset=UTF-8';
  if (/^(TabSeparated|TSV|TSKV|LineAs|Values|Pretty|Vertical|SQLInsert|Null|Raw)/.test(format)) return 'text/plain; charset=UTF-8';
  return 'application/octet-stream';
}
