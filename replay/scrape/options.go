package scrape

// File is the name of the file in the directory of a run.
const File = "server_metrics.jsonl"
