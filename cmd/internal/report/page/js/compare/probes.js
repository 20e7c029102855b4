"use strict";
// Probes: the search for a capacity, which tries numbers of lanes one after the other.

const probeVerdicts = [["met", "met every level", 2], ["missed", "missed a level", 3], ["client_bound", "held up by the client", 6]];

// drawProbes draws the probes of a search in their order, and the bounds between which the capacity lies.
function drawProbes(search, root) {
  if (!search || !search.probes.length) return;
  const { probes, lanes, missed } = search, charts = element("div", { class: "charts" });
  const points = probeVerdicts.map(([verdict, name, style]) => {
    const x = Array.from(probes.keys()).filter((k) => probes[k].verdict === verdict).map((k) => k + 1), y = x.map((k) => probes[k - 1].lanes);
    return new Points({ name, style, size: 5, x, y, labels: y.map((n) => groupDigits(String(n))) });
  });
  const line = (name, value, style) => value ? [new Line({ name: `${name}: ${groupDigits(String(value))}`, style, dash: [9, 4], width: 1.4, step: true, x: [0], y: [value] })] : [];
  section(root, "The search", "What was tried: twice as many lanes until a level is missed, then the middle of the bounds.").append(charts);
  new Chart(charts, {
    title: "Lanes by probe", about: lanes && missed ? "The capacity lies between the two lines." : "", x: { name: "probe", from: 0.5, to: probes.length + 0.5, whole: true, unit: "" }, y: { name: "lanes", log: true, unit: "" },
    marks: [...points.filter(({ x }) => x.length), ...line("most that met", lanes, 2), ...line("fewest above that did not", missed, 3)],
  });
}
