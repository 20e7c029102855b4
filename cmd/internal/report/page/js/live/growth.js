"use strict";
// Growth: the rows of a run that is played, to which each answer of the server adds, and the page that they make: its tables are those
// of the page of a finished run, in the same order.

class Growth {
  // add takes an unpacked answer: head.from says how many rows stay of those that are here.
  add(answer) {
    const { from } = answer.head;
    if (from.whole) {
      this.run = answer.head.summary.run;
      this.tables = {};
    }
    answer.head.summary.run = this.run;
    this.head = answer.head;
    this.title = answer.title;
    const stays = { sessions: from.sessions, requests: from.requests, failures: from.failures, bins: from.bins };
    from.servers.forEach((count, k) => { stays[`server.${k}`] = count; });
    for (const [name, table] of Object.entries(answer.tables)) {
      const old = this.tables[name], count = name === "bins.failures" && old ? firstAtLeast(old.columns.bin, from.bins) : stays[name] || 0;
      this.tables[name] = old ? extendTable(old, count, table) : table;
    }
  }

  // page returns the page of all rows: kind run.
  page() {
    const { requests, ...others } = this.tables, sessions = this.orderSessions();
    const tables = { ...others, trees: sessions.trees, sessions: sessions.table, requests: this.orderRequests(sessions) };
    return { kind: "run", title: this.title, head: this.head, tables };
  }

  // orderSessions returns the tables of trees and of sessions, and order, the sessions of its rows.
  orderSessions() {
    const { columns, rows } = this.tables.sessions, { tree, lane, pass, trace, depth, number, parent, label, whole } = columns;
    const counts = new Float64Array(rows), first = new Float64Array(rows).fill(Infinity), { session, sent } = this.tables.requests.columns;
    for (let i = 0; i < session.length; i++) {
      counts[session[i]]++;
      if (sent[i] < first[session[i]]) first[session[i]] = sent[i];
    }
    const order = Uint32Array.from(counts.keys()).sort((a, b) => tree[a] - tree[b] || depth[a] - depth[b] || first[a] - first[b] || a - b);
    const place = new Map(), roots = [], treeOf = new Float64Array(rows); // place: by number, the row
    order.forEach((k, row) => {
      place.set(number[k], row);
      if (!row || tree[order[row - 1]] !== tree[k]) roots.push(k);
      treeOf[row] = roots.length - 1;
    });
    const take = (column, from = order) => column instanceof Texts ? new Texts(take(column.codes, from), column.words) : Float64Array.from(from, (k) => column[k]);
    return {
      order,
      trees: { rows: roots.length, columns: { ordinal: take(tree, roots), lane: take(lane, roots), pass: take(pass, roots), trace: take(trace, roots) }, units: {} },
      table: { rows, columns: { tree: treeOf, parent: Float64Array.from(order, (k) => place.get(parent[k]) ?? NaN), depth: take(depth), requests: take(counts), whole: take(whole), label: take(label) }, units: {} },
    };
  }

  // orderRequests returns the table of requests: by session, those of the warmup first, in the order of sending.
  orderRequests({ order, table }) {
    const { columns, rows, units } = this.tables.requests, { session, turn, outer, ...others } = columns, warm = this.head.buckets.indexOf("warmup");
    const sessions = table.columns.requests, next = new Uint32Array(sessions.length + 1), rowOf = new Uint32Array(order.length), placed = new Uint32Array(rows);
    for (let k = 0; k < sessions.length; k++) next[k + 1] = next[k] + sessions[k];
    const first = next.slice();
    order.forEach((k, row) => { rowOf[k] = row; });
    for (let i = 0; i < rows; i++) placed[next[rowOf[session[i]]]++] = i;
    const later = (a, b) => (others.bucket[b] === warm) - (others.bucket[a] === warm) || others.sent[a] - others.sent[b] || a - b;
    for (let k = 0; k < sessions.length; k++) placed.subarray(first[k], first[k + 1]).sort(later);
    const made = { arrival: Float64Array.from(placed), turn_step: stepsOf(turn, placed, first), outer_step: stepsOf(outer, placed, first) };
    for (const [name, column] of Object.entries(others)) {
      made[name] = new Float64Array(rows);
      for (let row = 0; row < rows; row++) made[name][row] = column[placed[row]];
    }
    return { rows, columns: made, units };
  }
}

// stepsOf returns by how much a number differs from that of the row before of its session; the first from -1.
function stepsOf(column, placed, first) {
  const made = new Float64Array(placed.length);
  for (let k = 0; k + 1 < first.length; k++) {
    for (let row = first[k], before = -1; row < first[k + 1]; row++) {
      made[row] = column[placed[row]] - before;
      before = column[placed[row]];
    }
  }
  return made;
}

// extendTable returns the first rows of one table, and then all of another.
function extendTable(table, stay, more) {
  const columns = {};
  for (const [name, column] of Object.entries(more.columns)) columns[name] = extendColumn(table.columns[name] ?? new Float64Array(stay), stay, column);
  return { rows: stay + more.rows, columns, units: more.units };
}

function extendColumn(column, stay, more) {
  if (more instanceof Texts) return new Texts(extendColumn(column.codes, stay, more.codes.map((code) => code + column.words.length)), column.words.concat(more.words));
  const made = new Float64Array(stay + more.length);
  made.set(column.subarray(0, stay));
  made.set(more, stay);
  return made;
}
