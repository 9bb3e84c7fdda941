/** `PUT|GET /v1/tokenizers/{hash}`: vocabularies, so that token ids can be shown as what they stand for. Named by their own sha256, in the blob store. */
import type { FastifyPluginAsync } from 'fastify';
import { z } from 'zod';
import { isTapedeckError, TapedeckError } from '../../base/errors.ts';
import type { BlobStore } from '../../store/blobs/blob-store.ts';
import { abortedWith } from '../operations/client-gone.ts';
import { parsed } from '../operations/parsed.ts';
import { MAX_VOCABULARY_BYTES, Vocabulary, VOCABULARY_MEDIA_TYPE, vocabularyHash } from '../vocabularies/vocabulary.ts';
import { answerForms, jsonAnswer } from './answers/answer-schema.ts';
import { vocabularyAdded, vocabularyPieces } from './answers/export-answers.ts';
import { replyError } from './error-reply.ts';

const hash = z.string().regex(/^[0-9a-f]{64}$/, 'must be a sha256 in lower-case hexadecimal');
const params = z.object({ hash });
export const tokenizerQuery = z.strictObject({
  ids: z
    .string()
    .max(16_384)
    .regex(/^\d{1,10}(,\d{1,10})*$/)
    .optional()
    .meta({ description: 'Token ids: answers their bytes as JSON instead of the whole table.' }),
});
const json = (schema: z.ZodType): object => z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' });
const FOR_EVER = 'public, max-age=31536000, immutable';

export const tokenizerRoutes: FastifyPluginAsync<{ readonly blobs: BlobStore }> = async (app, { blobs }) => {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', { parseAs: 'buffer', bodyLimit: MAX_VOCABULARY_BYTES }, (_request, body, done) => done(null, body));
  app.setValidatorCompiler(() => () => true);
  app.setSerializerCompiler(() => JSON.stringify);
  app.setErrorHandler((error, _request, reply) => replyError(reply, asOurs(error)));
  app.put(
    '/v1/tokenizers/:hash',
    { bodyLimit: MAX_VOCABULARY_BYTES, schema: { operationId: 'put_tokenizer', summary: 'Register a vocabulary', tags: ['query'], params: json(params), response: jsonAnswer('It is stored', vocabularyAdded, 201) } },
    async (request, reply) => {
      const { hash: name } = parsed(params, request.params);
      const table = request.body;
      if (!(table instanceof Buffer)) throw new TapedeckError('bad_request', 'the body must be a vocabulary');
      const found = vocabularyHash(table);
      if (found !== name) throw new TapedeckError('digest_mismatch', `the sha256 of the body is ${found}: it is named by its content`);
      const vocabulary = Vocabulary.read(table);
      if (!vocabulary.ok) throw new TapedeckError(vocabulary.error.code, vocabulary.error.message);
      await blobs.put(table, VOCABULARY_MEDIA_TYPE, abortedWith(reply));
      return reply.code(201).send({ hash: name, ids: vocabulary.value.size, bytes: table.length });
    },
  );
  app.get(
    '/v1/tokenizers/:hash',
    { schema: { operationId: 'get_tokenizer', summary: 'Read a vocabulary', tags: ['query'], params: json(params), querystring: json(tokenizerQuery), response: answerForms('The table, or with `ids` these pieces', { 'application/json': vocabularyPieces, [VOCABULARY_MEDIA_TYPE]: null }) } },
    async (request, reply) => {
      const { hash: name } = parsed(params, request.params);
      const { ids } = parsed(tokenizerQuery, request.query);
      const vocabulary = await readTable(blobs, name, abortedWith(reply));
      void reply.header('cache-control', FOR_EVER).header('etag', `"${name}"`);
      if (ids === undefined) return reply.type(VOCABULARY_MEDIA_TYPE).send(Buffer.from(vocabulary.table));
      const pieces = ids.split(',').map((text) => {
        const bytes = vocabulary.read.bytesOf(Number(text));
        return { id: Number(text), kind: vocabulary.read.kindOf(Number(text)), bytes: bytes === null ? null : Buffer.from(bytes).toString('base64') };
      });
      return reply.send({ hash: name, pieces });
    },
  );
}; // prettier-ignore

/** A blob that is something else is not told apart from one that is not there. */
async function readTable(blobs: BlobStore, name: string, signal: AbortSignal): Promise<{ table: Uint8Array; read: Vocabulary }> {
  const missing = new TapedeckError('not_found', `no vocabulary is registered as ${name}: add it with tapedeck tokenizers add`);
  try {
    const table = await blobs.get(name, signal);
    const read = Vocabulary.read(table);
    if (!read.ok) throw missing;
    return { table, read: read.value };
  } catch (error) {
    throw isTapedeckError(error, 'blob_missing') ? missing : error;
  }
}

function asOurs(error: unknown): unknown {
  const { statusCode } = (error ?? {}) as { statusCode?: unknown };
  if (statusCode !== 413) return error;
  return new TapedeckError('body_too_large', `a vocabulary has at most ${MAX_VOCABULARY_BYTES} bytes`, { cause: error });
}
