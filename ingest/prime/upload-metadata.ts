/** The part `metadata` of an upload. */
import { TapedeckError } from '../../base/errors.ts';
import { isRecord, type JsonRecord } from '../importers/json-value.ts';
import { jsonReader } from '../importers/read-json.ts';

export type UploadMetadata = { readonly schemaVersion: 1; readonly context: JsonRecord };

/** Names of the context and their values are short texts. */
const MAX_CONTEXT_KEYS = 64;

/** Reads the part's text. Throws `invalid_metadata`, `unsupported_schema_version`. */
export function readMetadata(text: Buffer): UploadMetadata {
  const read = jsonReader()(text);
  if (!read.ok) throw invalid(`it is not JSON: ${read.error.message}`);
  if (!isRecord(read.value)) throw invalid('it must be an object');
  const { schema_version: version, context = {} } = read.value as { schema_version?: unknown; context?: JsonRecord };
  if (version !== 1)
    throw new TapedeckError('unsupported_schema_version', `schema_version must be 1: this server knows no other version of uploads`, {
      details: { field: 'schema_version' },
    });
  if (!isRecord(context)) throw invalid('context must be an object of texts');
  const entries = Object.entries(context);
  if (entries.length > MAX_CONTEXT_KEYS) throw invalid(`context has more than ${MAX_CONTEXT_KEYS} keys`);
  const odd = entries.find(([, value]) => typeof value !== 'string');
  if (odd !== undefined) throw invalid(`context.${odd[0].slice(0, 80)} must be a text`);
  return { schemaVersion: 1, context };
}

function invalid(what: string): TapedeckError {
  return new TapedeckError('invalid_metadata', `the part metadata cannot be used: ${what}`);
}
