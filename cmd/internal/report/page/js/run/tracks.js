"use strict";
// Tracks: where trees, sessions and requests lie in the chart of lanes. A lane has the trees that it played; a tree has a track for its
// root session, and below it tracks for the others: a session takes the first one that is free.

class Tracks {
  constructor(requests) {
    this.requests = requests;
    this.readSessions();
    this.readTrees();
    this.readLanes();
  }

  // readSessions finds when each session began (its first request was due) and ended, and the places of its requests.
  readSessions() {
    const { requests } = this, { sessions } = requests.page.tables, n = sessions.rows;
    Object.assign(this, { tree: sessions.columns.tree, parent: sessions.columns.parent, depth: sessions.columns.depth, track: new Uint16Array(n) });
    this.begin = new Float64Array(n).fill(Infinity);
    this.end = new Float64Array(n).fill(-Infinity);
    this.places = requests.place; // by row: rows of a session stand together
    for (let k = 0; k < n; k++) {
      for (let row = requests.firstRow[k]; row < requests.firstRow[k + 1]; row++) {
        const i = this.places[row];
        if (requests.due[i] < this.begin[k]) this.begin[k] = requests.due[i];
        if (requests.end[i] > this.end[k]) this.end[k] = requests.end[i];
      }
    }
  }

  // readTrees gives each session its track. Sessions stand by tree, the root first.
  readTrees() {
    const { rows } = this.requests.page.tables.trees;
    Object.assign(this, { treeBegin: new Float64Array(rows).fill(Infinity), treeEnd: new Float64Array(rows).fill(-Infinity), treeTracks: new Uint16Array(rows) });
    this.firstSession = new Uint32Array(rows + 1);
    for (let k = 0; k < this.tree.length; k++) this.firstSession[this.tree[k] + 1] = k + 1;
    for (let t = 0; t < rows; t++) {
      this.firstSession[t + 1] = Math.max(this.firstSession[t], this.firstSession[t + 1]);
      const inside = Array.from({ length: this.firstSession[t + 1] - this.firstSession[t] }, (_, i) => this.firstSession[t] + i);
      const ends = [];
      for (const k of inside.sort((a, b) => (this.depth[a] > 0) - (this.depth[b] > 0) || this.begin[a] - this.begin[b] || a - b)) {
        let track = this.depth[k] > 0 ? 1 : 0;
        while (ends[track] > this.begin[k]) track++;
        ends[track] = this.end[k];
        this.track[k] = track;
        this.treeTracks[t] = Math.max(this.treeTracks[t], track + 1);
        this.treeBegin[t] = Math.min(this.treeBegin[t], this.begin[k]);
        this.treeEnd[t] = Math.max(this.treeEnd[t], this.end[k]);
      }
    }
  }

  // readLanes lists the trees of each lane by their beginnings. lanes has the numbers of the lanes, ascending.
  readLanes() {
    const { lane } = this.requests.page.tables.trees.columns, byLane = new Map();
    for (let t = 0; t < lane.length; t++) {
      if (!byLane.has(lane[t])) byLane.set(lane[t], []);
      byLane.get(lane[t]).push(t);
    }
    this.lanes = this.requests.lanes;
    this.treesOf = Array.from(this.lanes, (number) => byLane.get(number).sort((a, b) => this.treeBegin[a] - this.treeBegin[b]));
    this.tracksOf = this.treesOf.map((trees) => trees.reduce((most, t) => Math.max(most, this.treeTracks[t]), 1));
    this.laneOf = new Map(Array.from(this.lanes, (number, place) => [number, place]));
  }

  // eachTree calls back for the trees of a lane, by its place, that a range shows.
  eachTree(place, from, to, visit) {
    for (const t of this.treesOf[place]) if (this.treeEnd[t] >= from && this.treeBegin[t] <= to) visit(t);
  }

  // eachSession does so for the sessions of a tree.
  eachSession(t, from, to, visit) {
    for (let k = this.firstSession[t]; k < this.firstSession[t + 1]; k++) if (this.end[k] >= from && this.begin[k] <= to) visit(k);
  }

  // span returns the rows from, to of a session's requests that a range shows.
  span(k, from, to) {
    const { requests, places } = this;
    let low = requests.firstRow[k], high = requests.firstRow[k + 1];
    const lastRow = high;
    while (low < high) { // requests of a session follow one another
      const middle = (low + high) >> 1;
      if (requests.end[places[middle]] < from) low = middle + 1; else high = middle;
    }
    for (high = low; high < lastRow && requests.due[places[high]] <= to;) high++;
    return [low, high];
  }

  // placeOf returns the place of the lane of a request.
  placeOf(i) { return this.laneOf.get(this.requests.page.tables.trees.columns.lane[this.tree[this.requests.session[i]]]); }

  // count returns how many requests lanes have in a range; it stops counting beyond a limit.
  count(places, from, to, limit) {
    let n = 0;
    for (const place of places) {
      this.eachTree(place, from, to, (t) => this.eachSession(t, from, to, (k) => {
        if (n > limit) return;
        const [low, high] = this.span(k, from, to);
        n += high - low;
      }));
      if (n > limit) break;
    }
    return n;
  }

  // links returns how a session hangs on its parent: {spawn, join}, the places of the parent's request that it began behind, and of the
  // one that waited for it; -1: none. The parent waited if it sent nothing while the session lived.
  links(k) {
    const parent = this.parent[k], none = { spawn: -1, join: -1 };
    if (!(parent >= 0)) return none;
    const { requests, places } = this, first = requests.firstRow[parent], last = requests.firstRow[parent + 1];
    let next = first;
    while (next < last && requests.time[places[next]] < this.begin[k]) next++;
    const spawn = next > first ? places[next - 1] : -1;
    const waited = next < last && requests.time[places[next]] >= this.end[k];
    return { spawn, join: waited ? places[next] : -1 };
  }

  // at returns the place of the request nearest to an instant on a lane, within a distance; -1: none. height says where in the row, from
  // 0 to 1, and so on which track; of a row without a height it is any.
  at(lane, height, time, distance) {
    let found = -1, best = distance;
    const { requests, places } = this;
    this.eachTree(lane, time - distance, time + distance, (t) => this.eachSession(t, time - distance, time + distance, (k) => {
      if (height >= 0 && this.track[k] !== Math.min(this.treeTracks[t] - 1, Math.floor(height * this.treeTracks[t]))) return;
      const [low, high] = this.span(k, time - distance, time + distance);
      for (let row = low; row < high; row++) {
        const i = places[row], away = Math.max(0, requests.due[i] - time, time - requests.end[i]);
        if (away <= best) { best = away; found = i; }
      }
    }));
    return found;
  }
}
