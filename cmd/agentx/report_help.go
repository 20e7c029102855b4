package main

// reportHelp is the manual of report.
const reportHelp = `Show what runs measured, from their records. DIR is a directory of replay --out; that of a list of
runs stands for those of its runs. That of a load which several clients played (replay --part) stands
for all its parts, as one run: instants are moved to the clock of part 0, percentiles are over all
requests, and behind rates stands what the clocks of the parts leave open. A part that is missing, was
killed or is of another load is an error; --partial reports the others, and says so above everything.
DIR/part-00001-of-00004 is one part.

  What happened?                        agentx report DIR --format html
  Is it better than last week?          agentx report LASTWEEK DIR --compare
  Is it good enough to ship?            agentx report DIR --base LASTWEEK --gate 'ttft.p95<+5%'
  How many agents does a server hold?   agentx replay CACHE --concurrency auto --slo 'ttft.p95<2s'

doc/report.md says how to read what comes out.

Without --format it rebuilds summary.json and prints it. For a run that ended it is the same, byte
for byte. A run that was killed wrote no summary: the rebuilt one has the figures that the records
give, and null for those that are known only at the end of a run.

--format makes one or more of

  html        report.html: the page of the run, for a browser
  aiperf      the files of AIPerf: profile_export.jsonl (a row for each request),
              profile_export_aiperf.json and .csv, profile_export_console.txt, with --slice-duration
              the time slices, server_metrics_export.json and .csv if servers were scraped, and
              .aiperf_results_ready.json last
  json, csv   profile_export_aiperf.json, profile_export_aiperf.csv alone
  parquet     records.parquet: the records of the run as a table
  inferencex  prints, as JSON, the numbers that InferenceX computes from the files of AIPerf
  markdown    prints verdict, gates, figures with their intervals, and with --base the differences, as
              GitHub shows them; also appended to the file that GITHUB_STEP_SUMMARY names

--compare compares two or more runs with the first: it prints a table with the differences, says
which of them exceed their intervals, and writes compare.html, compare.json and compare.csv to --out,
by default the current directory. Runs that differ in what must be equal (dataset, seed, preset,
scenario, model, payload, marker and others) are named first; --strict then ends with status 3.

Files go to DIR, or to --out; of several runs to a directory below it for each. Every file appears
whole or not at all, and replaces an older one. The paths are printed, one a line.

--gate fails with status 3, and says why, unless what it says holds. The files are written all the same.

  --gate 'ttft.p95<2s' --gate 'goodput>3' --gate 'error-rate<1%'    a figure of the run
  --gate 'ttft.p95<+5%' --base DIR    its difference to the run of DIR, unless it may be noise: the
              interval of the difference decides
  --gate error-rate=0.1    failed over completed requests, by the rule of InferenceX

--slo 'ttft<2s' judges the run by these service levels, in the place of its own.

Figures are ttft, itl, latency, tpot, lateness, prompt_tokens and output_tokens, each with .mean, .p50,
.p75, .p90, .p95, .p99 or .max; request_rate, output_token_rate, prompt_token_rate, error-rate, goodput
and token_hit_rate.

DIR may also hold files that AIPerf wrote: then report prints their numbers, says what they lack and
where two of them differ, and --gate and --format inferencex read them.`
