/** JSON Schema, as far as the API's own document uses it, written as TypeScript types. What it does not know it refuses, so that no type is vaguer than its schema by accident. */

export type Schema = { readonly [key: string]: unknown };

const PLAIN: Readonly<Record<string, string>> = { string: 'string', number: 'number', integer: 'number', boolean: 'boolean', null: 'null' };
/** Says nothing about the type of a value. */
const SILENT = new Set([
  'description', 'default', 'examples', 'format', 'pattern', 'minLength', 'maxLength', 'minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'minItems', 'maxItems',
  'propertyNames', '$schema', 'x-operators', 'multipleOf', 'uniqueItems', 'minProperties', 'maxProperties',
]); // prettier-ignore
const KNOWN = new Set([
  'type', 'enum', 'const', 'anyOf', 'oneOf', 'items', 'prefixItems', 'properties', 'required', 'additionalProperties', 'x-named-fields',
]); // prettier-ignore

/** Writes types; a schema with a title becomes a type of that name. */
export class SchemaTypes {
  readonly #named = new Map<string, string>();

  /** Declarations of the types that have names. */
  declarations(): string[] {
    return [...this.#named].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([name, type]) => `export type ${name} = ${type};`);
  }

  /** The type as text. Bytes are `Blob`. Errors: a keyword that is not known; one title for two types. */
  typeOf(schema: Schema): string {
    const { title, ...untitled } = schema;
    if (typeof title !== 'string') return this.#typeOf(schema);
    const type = this.#typeOf(untitled);
    if ((this.#named.get(title) ?? type) !== type) throw new Error(`two types are called ${title}`);
    this.#named.set(title, type);
    return title;
  }

  #typeOf(schema: Schema): string {
    if (Object.keys(schema['properties'] ?? {}).join() === '$float') return 'FloatLiteral'; // stands in many answers
    const unknown = Object.keys(schema).find((key) => !SILENT.has(key) && !KNOWN.has(key));
    if (unknown !== undefined) throw new Error(`the generator does not know ${unknown} in ${JSON.stringify(schema).slice(0, 300)}`);
    if (schema['const'] !== undefined) return JSON.stringify(schema['const']);
    if (Array.isArray(schema['enum'])) return union(schema['enum'].map((value) => JSON.stringify(value)));
    const choices = schema['anyOf'] ?? schema['oneOf'];
    if (Array.isArray(choices)) return union((choices as Schema[]).map((each) => this.typeOf(each)));
    const { type } = schema;
    if (Array.isArray(type)) return union(type.map((each) => this.typeOf({ ...schema, type: each as unknown })));
    if (type === 'array') return this.#arrayType(schema);
    if (type === 'object') return this.#objectType(schema);
    if (type === 'string' && schema['format'] === 'binary') return 'Blob';
    return typeof type === 'string' ? (PLAIN[type] ?? 'unknown') : 'unknown';
  }

  /** Not read-only: openapi-fetch knows arrays by that. */
  #arrayType({ items, prefixItems }: Schema): string {
    if (Array.isArray(prefixItems)) return `[${(prefixItems as Schema[]).map((each) => this.typeOf(each)).join(', ')}]`;
    return items === undefined ? 'unknown[]' : `(${this.typeOf(items as Schema)})[]`;
  }

  #objectType({ properties = {}, required = [], additionalProperties, 'x-named-fields': named = [] }: Schema): string {
    const names = new Set(required as string[]);
    const members = Object.entries(properties as Record<string, Schema>).map(
      ([name, schema]) => `${comment(schema['description'])}${memberName(name, names.has(name))}: ${this.typeOf(schema)}`,
    );
    const rest = typeof additionalProperties === 'object' ? this.typeOf(additionalProperties as Schema) : 'unknown';
    const others = (named as string[]).map((prefix) => `readonly [name: \`${prefix}.\${string}\`]: ${rest}`);
    if (members.length + others.length > 0) return `{ ${[...members, ...others].join(';\n')} }`;
    return additionalProperties === false ? 'Record<string, never>' : `{ readonly [key: string]: ${rest} }`;
  }
}

function union(types: readonly string[]): string {
  return [...new Set(types)].join(' | ');
}

export function memberName(name: string, isRequired: boolean): string {
  return `readonly ${/^[A-Za-z_]\w*$/.test(name) ? name : JSON.stringify(name)}${isRequired ? '' : '?'}`;
}

export function comment(text: unknown): string {
  return typeof text === 'string' && text !== ''
    ? `/** ${text
        .replace(/ \(also [^)]*\)$/, '')
        .replaceAll('*/', '* /')
        .replaceAll(/\s+/g, ' ')} */\n`
    : '';
}
