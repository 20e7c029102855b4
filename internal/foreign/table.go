package foreign

import "github.com/agentx/agentx/internal/lazyregexp"

// What owners of files can do.
const (
	unpack  = "unpack it, and give the files or their directory"
	decode  = "unpack it (gzip and zstd are read as they are): "
	capture = "agentx capture, which records a trace from the requests of a client that sends this to a server"
	noTrace = "another file: this one says neither which prompts share what nor what they hold; agentx fetch lists recorded traces"
	results = "the traces that this benchmark sent, not its results"
)

// table has every format that is known and not read. The first that fits counts.
var table = []*Format{
	// Archives, and compression that is not read.
	{name: "a zip archive", try: unpack + ": unzip FILE", magic: []string{"PK\x03\x04", "PK\x05\x06"}},
	{name: "a tar archive", try: unpack + ": tar -xf FILE", tar: true},
	{name: "a 7z archive", try: unpack + ": 7z x FILE", magic: []string{"7z\xbc\xaf\x27\x1c"}},
	{name: "compressed with xz", try: decode + "xz -d FILE", magic: []string{"\xfd7zXZ\x00"}},
	{name: "compressed with bzip2", try: decode + "bzip2 -d FILE", text: lazyregexp.New(`\ABZh[1-9]1AY&SY`)},
	{name: "compressed with lz4", try: decode + "lz4 -d FILE", magic: []string{"\x04\x22\x4d\x18"}},
	{name: "a dictionary of zstd, not what was compressed with it", try: "the files that were compressed with it, unpacked: zstd -d -D FILE", magic: []string{"\x37\xa4\x30\xec"}},

	// Files that hold no JSON.
	{name: "an Arrow file", try: "write it as Parquet or as JSON lines, with pyarrow or polars", magic: []string{"ARROW1", "\xff\xff\xff\xff", "FEA1"}},
	{name: "a pickle of Python", try: "write it as JSON lines, in the program that wrote it", magic: []string{"\x80\x02", "\x80\x03", "\x80\x04", "\x80\x05"}},
	{name: "text in UTF-16, or UTF-32, not UTF-8", try: "convert it to UTF-8: iconv -f UTF-16 -t UTF-8 FILE", magic: []string{"\xff\xfe", "\xfe\xff", "{\x00", "[\x00", "\x00{", "\x00["}},
	{
		name: "a pointer of Git LFS, not the file itself", text: lazyregexp.New(`\Aversion https://git-lfs\.github\.com/`),
		try: "git lfs pull in the clone; or the name on the hub, hf://datasets/OWNER/NAME, for a tokenizer OWNER/NAME, from which agentx downloads the file itself",
	},
	{
		name: "a page of HTML or XML, such as a login or an error, saved in place of the file", text: lazyregexp.New(`(?i)\A<(!doctype|html|\?xml)`),
		try: "download the file again; from the hub, by .../resolve/... instead of .../blob/...",
	},
	{name: "CSV with another header than those of Azure's traces (TIMESTAMP,ContextTokens,GeneratedTokens) and of BurstGPT (Timestamp,Model,Request tokens,...)", try: noTrace, text: lazyregexp.New(`\A("[^"\n]*"|[A-Za-z_][^",;{}\x00-\x1f\x7f-\xff]*)([,;\t]("[^"\n]*"|[^",;{}\x00-\x1f]*))+(\r?\n|\z)`)},

	// Rows that are close to Mooncake's.
	{
		name: "agentic_mooncake of Dynamo, in a file whose first row is a plain Mooncake row", try: `the file with "wait_for":[] in its first row`,
		among: []string{"wait_for", "tool_wait_ms", "play_id", "not_before_ms", "dependencies"},
	},
	{
		name: "a Mooncake row without hash_ids: its lengths do not say which prompts share what", try: "a file whose rows have hash_ids: agentx fetch lists public ones",
		rows: []string{"input_length output_length", "input_tokens output_tokens", "input_length output_tokens", "input_tokens output_length"},
	},

	// Results, which other verbs read or none.
	{name: "a record of a run of AIPerf", try: "agentx report, which compares the directory of that run; to convert: " + results, rows: []string{"metadata metrics", "metadata payload responses", "input_config request_throughput", "aiperf_version"}},
	{name: "a result of genai-bench", try: results, rows: []string{"aggregated_metrics", "experiment_folder_name"}},
	{name: "a result of GuideLLM", try: results, rows: []string{"benchmarks"}},
	{name: "a result of genai-perf", try: results, rows: []string{"experiments version", "experiments service_kind"}},

	// Logs of agents and of their requests.
	{
		name: "a log of Claude Code, whose texts say nothing of blocks", try: capture,
		rows: []string{"sessionId uuid", "type=summary leafUuid", "type=file-history-snapshot", "type=queue-operation", "sessionId parentUuid"},
	},
	{
		name: "a log of Codex, whose texts say nothing of blocks", try: capture,
		rows: []string{"type=session_meta payload", "type=response_item payload", "type=event_msg payload", "type=turn_context payload", "instructions git", "type=thread.started thread_id"},
	},
	{name: "a trajectory of SWE-agent, whose texts say nothing of blocks", try: capture, rows: []string{"trajectory info", "trajectory history", "trajectory_format", "instance_id trajectory", "trajectory environment"}},
	{name: "answers to a batch of OpenAI's API, without the requests", try: "the file of its requests", rows: []string{"custom_id response"}},
	{name: "OTLP of OpenTelemetry, whose spans say nothing of blocks", try: capture, rows: []string{"resourceSpans", "resourceLogs", "resourceMetrics", "resource_spans", "resource_logs", "resource_metrics"}},
	{name: "ShareGPT: conversations without times and blocks, and no recorded trace", try: capture, rows: []string{"conversations"}},
	{
		name: "a capture of SageMaker, which agentx does not read", rows: []string{"captureData eventMetadata"},
		try: "the bodies of its requests, with --format raw_payload: jq -c '.captureData.endpointInput.data | fromjson' FILE",
	},
	{
		name: "a trace of Baseten, which agentx does not read", rows: []string{"prompt timestamp_start_unix_ms"},
		try: "its columns as JSON lines of AIPerf's mooncake_trace: text_input, timestamp in ms, session_id, output_length",
	},
	{name: "a row of TraceLab, which says neither which prompts share what nor what they hold", try: "another file: agentx fetch lists recorded traces", rows: []string{"timing_events round_index", "session_id newly_append_tokens"}},
	{name: "a row with a raw payload, as AIPerf takes it, without blocks, which agentx does not play", try: capture, rows: []string{"payload timestamp", "payload session_id", "payload delay"}},
	{name: "a row of a chat dataset, with messages and without hash_ids, and no recorded trace", try: capture, rows: []string{"messages"}},
}
