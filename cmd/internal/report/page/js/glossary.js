"use strict";
// Glossary: the words of a page, at its end.

const reference = "https://github.com/agentx/agentx/blob/main/doc/report.md";

const glossary = {
  "lane": "An agent that is played: one tree after the other, with the gaps of the recording between its requests. So many lanes, so many agents at a time.",
  "tree": "A recorded session with all its subagents.",
  "TTFT": "Time to first token: from sending a request to the first token of its answer. Lower is better.",
  "ITL": "Inter-token latency: mean time from one token of an answer to the next. Lower is better.",
  "TPOT": "Time per output token: the same, but over all output tokens less one.",
  "interactivity": "1 ÷ ITL: tokens per second that one reader gets. Higher is better.",
  "latency": "From sending a request to the last token of its answer. Lower is better.",
  "lateness": "How much later than due a request was sent: what the client cost, not the server. A few milliseconds are usual.",
  "cached": "Share of the prompt tokens that the server found in its prefix cache, as it reports. Higher is better.",
  "ideal": "Share that a prefix cache without a limit would have found in what was sent.",
  "measured": "Requests that ended well and in time: by the deadline, or, where the run counts the grace (count-grace), by the end of that. All figures of latency are over these.",
  "left out": "Requests that are in no figure of latency: they were cut off at the end, did not fit the context, or ended after the deadline in a run that does not count the grace.",
  "goodput": "Requests per second that ended well and met every service level on requests.",
  "p50, p95": "The value that 50 or 95 of 100 requests do not exceed. “?” stands behind one of too few requests.",
  "interval": "Where a figure lies with 95 %, by 1,000 resamples of the trees.",
};

// drawGlossary explains words, and links to the reference.
function drawGlossary(root, words) {
  const list = element("dl", { class: "glossary" });
  for (const word of words) list.append(element("div", {}, element("dt", {}, word), element("dd", {}, glossary[word])));
  section(root, "Words").append(list, element("p", { class: "about" }, "More: ", element("a", { href: reference, rel: "noreferrer" }, "how to read a page"), "."));
}
