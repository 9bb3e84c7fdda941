import { toJson } from '../../../events/codec/cbor-to-json.ts';

/** A free-form value as exact JSON text for a nullable column; absent stays NULL. */
export function jsonText(value: unknown): string | null {
  return value === undefined || value === null ? null : toJson(value);
}
