/**
 * The exact JSON text of a message, put together again from the columns that projections/message-cells.ts made. `toJSONString` escapes every slash and some
 * line separators besides what JSON demands; the slashes are undone, so that text reads as it was sent.
 */
export function messageSql(t: string): string {
  const json = (value: string): string => `replaceAll(toJSONString(${value}), '\\\\/', '/')`;
  const size = `length(${t}._message)`;
  const textAt = `ifNull(${t}._text_at, ${size})`;
  const reasoningAt = `ifNull(${t}._reasoning_at, ${size})`;
  const text = `if(isNull(${t}._text_at), '', ${json(`assumeNotNull(${t}.text)`)})`;
  const reasoning = `if(isNull(${t}._reasoning_at), '', ${json(`assumeNotNull(${t}.reasoning)`)})`;
  const isTextFirst = `${textAt} <= ${reasoningAt}`;
  const low = `least(${textAt}, ${reasoningAt})`;
  const high = `greatest(${textAt}, ${reasoningAt})`;
  const part = (from: string, length: string): string => `substring(${t}._message, ${from} + 1, ${length})`;
  return (
    `concat(substring(${t}._message, 1, ${low}), if(${isTextFirst}, ${text}, ${reasoning}), ` +
    `${part(low, `${high} - ${low}`)}, if(${isTextFirst}, ${reasoning}, ${text}), ${part(high, size)})`
  );
}
