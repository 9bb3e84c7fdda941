/** Formats that answers may be written in: those that are a function of the rows alone. Not those that read a template or schema file of the server. */
const FORMATS: ReadonlySet<string> = new Set([
  'JSON', 'JSONStrings', 'JSONColumns', 'JSONColumnsWithMetadata', 'JSONCompact', 'JSONCompactStrings', 'JSONCompactColumns', 'JSONEachRow', 'PrettyJSONEachRow',
  'JSONEachRowWithProgress', 'JSONStringsEachRow', 'JSONStringsEachRowWithProgress', 'JSONCompactEachRow', 'JSONCompactEachRowWithNames',
  'JSONCompactEachRowWithNamesAndTypes', 'JSONCompactEachRowWithProgress', 'JSONCompactStringsEachRow', 'JSONCompactStringsEachRowWithNames',
  'JSONCompactStringsEachRowWithNamesAndTypes', 'JSONCompactStringsEachRowWithProgress', 'JSONObjectEachRow', 'JSONLines', 'NDJSON', 'BSONEachRow',
  'TabSeparated', 'TabSeparatedRaw', 'TabSeparatedWithNames', 'TabSeparatedWithNamesAndTypes', 'TabSeparatedRawWithNames', 'TabSeparatedRawWithNamesAndTypes',
  'TSV', 'TSVRaw', 'TSVWithNames', 'TSVWithNamesAndTypes', 'TSVRawWithNames', 'TSVRawWithNamesAndTypes', 'Raw', 'RawWithNames', 'TSKV',
  'CSV', 'CSVWithNames', 'CSVWithNamesAndTypes', 'Values', 'Vertical', 'XML', 'Markdown', 'Null', 'SQLInsert',
  'Pretty', 'PrettyNoEscapes', 'PrettyMonoBlock', 'PrettyNoEscapesMonoBlock', 'PrettyCompact', 'PrettyCompactNoEscapes', 'PrettyCompactMonoBlock',
  'PrettySpace', 'PrettySpaceNoEscapes', 'PrettySpaceMonoBlock',
  'Native', 'RowBinary', 'RowBinaryWithNames', 'RowBinaryWithNamesAndTypes', 'Arrow', 'ArrowStream', 'Parquet', 'ORC', 'Avro', 'MsgPack', 'LineAsString', 'RawBLOB', 'Npy',
]); // prettier-ignore

const BY_LOWER_CASE = new Map([...FORMATS].map((name) => [name.toLowerCase(), name]));

/** The engine's own spelling; null for a format that is not served. */
export function outputFormat(name: string): string | null {
  return BY_LOWER_CASE.get(name.toLowerCase()) ?? null;
}
