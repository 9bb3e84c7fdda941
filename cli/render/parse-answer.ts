/** Answers of the server as values: floats that JSON lacks, `{"$float": "NaN"}`, become numbers again. */

const LACKING: Readonly<Record<string, number>> = { NaN, Infinity, '-Infinity': -Infinity };

export function parseAnswer<T>(text: string): T {
  return JSON.parse(text, (_key, value: unknown) => {
    if (typeof value !== 'object' || value === null || !('$float' in value)) return value;
    return LACKING[String(value.$float)] ?? value;
  }) as T;
}
