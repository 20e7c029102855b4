"use strict";
// Columns: what page.go packed, as arrays. A column of numbers becomes a Float64Array, NaN where a number is not known; a column of
// texts becomes Texts.

class Texts {
  constructor(codes, words) { this.codes = codes; this.words = words; this.length = codes.length; }
  at(row) { return this.words[this.codes[row]]; }
}

// unpackPage returns {kind, title, head, tables}; tables.NAME is {rows, columns, units}, both of these by the names of columns.
function unpackPage(packed) {
  const tables = {};
  for (const table of packed.tables) tables[table.name] = unpackTable(table);
  return { kind: packed.kind, title: packed.title, head: packed.head, tables };
}

function unpackTable(packed) {
  const columns = {}, units = {};
  for (const column of packed.columns) {
    lazily(columns, column.name, () => unpackColumn(column, packed.rows));
    units[column.name] = column.unit || "";
  }
  return { rows: packed.rows, columns, units };
}

// lazily gives an object a property that is made when it is first read.
function lazily(object, name, make) {
  let made;
  Object.defineProperty(object, name, { get: () => made ??= make(), enumerable: true });
}

function unpackColumn(column, rows) {
  const bytes = unpackBase64(column.data);
  if (column.as === "doubles") return new Float64Array(bytes.buffer, 0, rows);
  const numbers = unpackVarints(bytes, rows, column.as === "deltas");
  if (column.words) return new Texts(numbers, column.words);
  if (column.scale) for (let i = 0; i < rows; i++) numbers[i] /= column.scale;
  return numbers;
}

// unpackVarints reads LEB128 numbers: 0 is a missing one, others are 1 more than their zigzag form. What exceeds 28 bits is multiplied, because shifts
// are of 32.
function unpackVarints(bytes, rows, deltas) {
  const numbers = new Float64Array(rows);
  let last = 0;
  for (let row = 0, at = 0; row < rows; row++) {
    let byte = bytes[at++], value = byte & 127, shift = 7;
    for (; byte >= 128 && shift < 28; shift += 7) value |= ((byte = bytes[at++]) & 127) << shift;
    if (byte >= 128) value = unpackLong(bytes, at, value);
    while (byte >= 128) byte = bytes[at++];
    if (value === 0) { numbers[row] = NaN; continue; }
    const half = Math.floor(value / 2); // of 1 more than the zigzag form: 0, -1, 1, -2 are 1, 2, 3, 4
    value = 2 * half === value ? -half : half;
    numbers[row] = deltas ? (last += value) : value;
  }
  return numbers;
}

// unpackLong returns a number whose lowest 28 bits are known, and whose next byte stands at a place.
function unpackLong(bytes, at, value) {
  for (let place = 2 ** 28; ; place *= 128) {
    value += (bytes[at] & 127) * place;
    if (bytes[at++] < 128) return value;
  }
}

const base64Digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

function unpackBase64(text) {
  const places = new Uint8Array(128);
  for (let i = 0; i < 64; i++) places[base64Digits.charCodeAt(i)] = i;
  const length = text.endsWith("==") ? text.length - 2 : text.endsWith("=") ? text.length - 1 : text.length;
  const bytes = new Uint8Array(Math.floor(length * 3 / 4));
  for (let from = 0, to = 0; from < length; from += 4) {
    let bits = 0;
    for (let i = 0; i < 4; i++) bits = bits << 6 | places[text.charCodeAt(from + i)];
    for (let shift = 16; shift >= 0 && to < bytes.length; shift -= 8) bytes[to++] = bits >> shift;
  }
  return bytes;
}
