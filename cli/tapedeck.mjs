#!/usr/bin/env node
// The tapedeck command: re-executes itself with the pinned Node, whatever Node the caller has.
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ensureInstalled, runPinned } from './bootstrap.mjs';

ensureInstalled();
runPinned([join(dirname(fileURLToPath(import.meta.url)), 'main.ts'), ...process.argv.slice(2)]);
