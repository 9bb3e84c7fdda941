import { readFile } from 'node:fs/promises';
import { basename } from 'node:path';
import { Command } from 'commander';
import { TapedeckError } from '../../base/errors.ts';
import { fromTiktoken, fromTokenizerJson } from '../../query/vocabularies/tokenizer-files.ts';
import { VOCABULARY_MEDIA_TYPE, vocabularyHash, writeVocabulary } from '../../query/vocabularies/vocabulary.ts';
import type { Config } from '../config.ts';
import { askServer } from '../render/ask-server.ts';

type Options = { readonly url: string };

/** `tapedeck tokenizers add <file>`: registers the vocabulary of a tokenizer.json, or of tiktoken's ranks, and prints its hash. */
export function tokenizersCommand(config: Pick<Config, 'url'>): Command {
  const command = new Command('tokenizers');
  command
    .command('add')
    .description('register the vocabulary of a tokenizer, so that token ids can be shown as text; prints its hash')
    .argument('<file>', 'tokenizer.json, or tiktoken ranks (.tiktoken)')
    .option('--url <url>', 'server to ask', config.url)
    .addHelpText(
      'after',
      '\nSet the hash as "tokenizerHash" of the upstream in the gateway\'s settings, and traces name it themselves; else name it with --vocabulary.',
    )
    .action(async (file: string, options: Options) => {
      process.stdout.write(`${await addTokenizer(file, options)}\n`);
    });
  return command;
}

async function addTokenizer(file: string, { url }: Options): Promise<string> {
  const text = await readFile(file, 'utf8').catch((cause: unknown) => {
    throw new TapedeckError('usage', `${file} cannot be read: ${(cause as Error).message}`, { cause });
  });
  const entries = text.trimStart().startsWith('{') ? fromTokenizerJson(text) : fromTiktoken(text);
  if (!entries.ok) throw new TapedeckError(entries.error.code, `${basename(file)}: ${entries.error.message}`);
  const table = writeVocabulary(entries.value);
  const hash = vocabularyHash(table);
  const init = { method: 'PUT', headers: { 'content-type': VOCABULARY_MEDIA_TYPE }, body: Buffer.from(table) };
  await (await askServer(url, `/v1/tokenizers/${hash}`, init)).arrayBuffer();
  return hash;
}
