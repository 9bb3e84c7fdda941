import { InvalidArgumentError } from 'commander';

/** An option that is a number of seconds. */
export function asSeconds(text: string): number {
  const seconds = Number(text);
  if (text.trim() === '' || !Number.isFinite(seconds) || seconds < 0)
    throw new InvalidArgumentError('must be a number of seconds, 0 or more');
  return seconds;
}
