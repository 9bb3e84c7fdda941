/** The log of a process, on stderr: lines for people where that is a terminal, JSON lines everywhere else. */
import { pino, type Logger } from 'pino';
import pretty from 'pino-pretty';

export function openLogger(level: string, isTerminal: boolean): Logger {
  if (!isTerminal) return pino({ level }, pino.destination(2));
  return pino({ level }, pretty({ destination: 2, sync: true, ignore: 'pid,hostname', translateTime: 'SYS:HH:MM:ss' }));
}
