/** JSON Schema, as far as the API's own document uses it, written as TypeScript types. What it does not know it refuses, so that no type is vaguer than its schema by accident. */

export type Schema = { readonly [key: string]: unknown };

const PLAIN: Readonly<Record<string, string>> = { string: 'string', number: 'number', integer: 'number', boolean: 'boolean', null: 'null' };
/** Says nothing about the type of a value. */
const SILENT = new Set([
  'description', 'default', 'examples', 'title', 'format', 'pattern', 'minLength', 'maxLength', 'minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'minItems', 'maxItems',
  'propertyNames', '$schema', 'x-operators', 'multipleOf', 'uniqueItems', 'minProperties', 'maxProperties',
]); // prettier-ignore
const KNOWN = new Set([
  'type', 'enum', 'const', 'anyOf', 'oneOf', 'items', 'prefixItems', 'properties', 'required', 'additionalProperties', 'patternProperties',
]); // prettier-ignore

/** Forms that stand in many answers, by their schema. */
const NAMED: Readonly<Record<string, string>> = {
  [JSON.stringify({ type: 'object', properties: { $float: { enum: ['NaN', 'Infinity', '-Infinity'] } }, required: ['$float'] })]:
    'FloatLiteral',
};

/** The type as text. Bytes are `Blob`. Errors: a keyword that is not known. */
export function typeOf(schema: Schema): string {
  const named = NAMED[JSON.stringify(schema)];
  if (named !== undefined) return named;
  const unknown = Object.keys(schema).find((key) => !SILENT.has(key) && !KNOWN.has(key));
  if (unknown !== undefined) throw new Error(`the generator does not know ${unknown} in ${JSON.stringify(schema).slice(0, 300)}`);
  if (schema['const'] !== undefined) return JSON.stringify(schema['const']);
  if (Array.isArray(schema['enum'])) return schema['enum'].map((value) => JSON.stringify(value)).join(' | ');
  const choices = schema['anyOf'] ?? schema['oneOf'];
  if (Array.isArray(choices)) return union((choices as Schema[]).map(typeOf));
  const { type } = schema;
  if (Array.isArray(type)) return union(type.map((each) => typeOf({ ...schema, type: each as unknown })));
  if (type === 'array') return arrayType(schema);
  if (type === 'object') return objectType(schema);
  if (type === 'string' && schema['format'] === 'binary') return 'Blob';
  return typeof type === 'string' ? (PLAIN[type] ?? 'unknown') : 'unknown';
}

function union(types: readonly string[]): string {
  return [...new Set(types)].join(' | ');
}

function arrayType({ items, prefixItems }: Schema): string {
  if (Array.isArray(prefixItems)) return `readonly [${(prefixItems as Schema[]).map(typeOf).join(', ')}]`;
  return items === undefined ? 'readonly unknown[]' : `readonly (${typeOf(items as Schema)})[]`;
}

function objectType({ properties = {}, required = [], additionalProperties, patternProperties = {} }: Schema): string {
  const names = new Set(required as string[]);
  const members = Object.entries(properties as Record<string, Schema>).map(([name, schema]) => member(name, schema, names.has(name)));
  const patterns = Object.entries(patternProperties as Record<string, Schema>).map(([pattern, schema]) => patternMember(pattern, schema));
  const rest = typeof additionalProperties === 'object' ? typeOf(additionalProperties as Schema) : 'unknown';
  if (members.length + patterns.length === 0) return additionalProperties === false ? 'Record<string, never>' : `{ readonly [key: string]: ${rest} }`;
  return `{ ${[...members, ...patterns].join(';\n')} }`;
} // prettier-ignore

export function member(name: string, schema: Schema, isRequired: boolean): string {
  const key = /^[A-Za-z_]\w*$/.test(name) ? name : JSON.stringify(name);
  return `${comment(schema['description'])}readonly ${key}${isRequired ? '' : '?'}: ${typeOf(schema)}`;
}

/** `^reward\.` is every name that begins with it. */
function patternMember(pattern: string, schema: Schema): string {
  const prefix = /^\^(\w+)\\\.$/.exec(pattern)?.[1];
  if (prefix === undefined) throw new Error(`the generator does not know the pattern ${pattern}`);
  return `readonly [name: \`${prefix}.\${string}\`]: ${typeOf(schema)}`;
}

export function comment(text: unknown): string {
  return typeof text === 'string' && text !== ''
    ? `/** ${text
        .replace(/ \(also [^)]*\)$/, '')
        .replaceAll('*/', '* /')
        .replaceAll(/\s+/g, ' ')} */\n`
    : '';
}
