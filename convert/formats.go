package convert

import (
	"cmp"
	"crypto/sha256"
	"iter"
	"slices"
	"strings"

	"github.com/agentx/agentx/convert/loads"
	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/hfsource"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/trace"
)

// format is a format of rows of text. The next one is a package that imports trace and a lexer, and a row of formats.
type format struct {
	name string                  // that its traces have as trace.Trace.Format
	what string                  // for messages: what one of its traces is
	is   func(first []byte) bool // the first row

	suffix string // of files whose rows are lines of text that is no JSON, such as ".csv"; else ""

	// lenient: as in logs, a byte order mark is left out, and so is a last line without an end that is no row. Both are oddities.
	lenient bool

	scan scanFunc // of a format whose rows are traces; else nil
	open openFunc // of a format whose rows make traces when all of a file are read; else nil

	// sample has rows that exercise the reader. Keys of inputs of the format contain a digest of what they become, and no other
	// keys do. Weka and Mooncake have none: their samples are those of probe.go, which were in keys before.
	sample string
	more   string // another file of its samples
}

type scanFunc func(row []byte, r rules.Rules, reserve trace.Reserve) (*trace.Trace, error)

// openFunc begins a file, which has a number from 0, and whose ids name blocks of a namespace. reserve is asked for what a row takes until the end.
type openFunc func(number, namespace int, r rules.Rules, reserve trace.Reserve) fileReader

// fileReader takes the rows of one file. Their traces are known when all are read, with the rows that each is of (trace.Trace.Rows), and so are
// rows that turn out invalid.
type fileReader interface {
	Add(row []byte) error
	Traces() (iter.Seq[*trace.Trace], error)
	Invalid() []*trace.Error
}

// formats are tried in this order on the first row of each file. The last is that of all others, and the one that Parquet has.
var formats = []format{
	{name: loads.BailianName, what: "a trace of Bailian", is: loads.IsBailian, lenient: true, sample: sampleBailian,
		open: func(number, namespace int, _ rules.Rules, reserve trace.Reserve) fileReader {
			return loads.NewBailian(number, namespace, reserve)
		}},
	{name: loads.DynamoName, what: "a request trace of Dynamo", is: loads.IsDynamo, lenient: true, sample: sampleDynamo,
		open: func(number, namespace int, _ rules.Rules, reserve trace.Reserve) fileReader {
			return loads.NewDynamo(number, namespace, reserve)
		}},
	{name: loads.AgenticName, what: "agentic_mooncake of Dynamo", is: loads.IsAgentic, lenient: true, sample: sampleAgentic, more: sampleAgentic2,
		open: func(number, namespace int, r rules.Rules, reserve trace.Reserve) fileReader {
			return loads.NewAgentic(number, namespace, int64(r.BlockSize), reserve)
		}},
	{name: loads.AppliedName, what: "a session of Applied Compute", is: loads.IsApplied, lenient: true, sample: sampleApplied,
		open: func(number, _ int, _ rules.Rules, reserve trace.Reserve) fileReader {
			return loads.NewApplied(number, reserve)
		}},
	{name: mmapcache.FormatMooncake, what: "Mooncake rows", is: weka.IsMooncake, open: func(number, namespace int, r rules.Rules, reserve trace.Reserve) fileReader {
		m := weka.NewMooncake(number, r)
		m.Namespace, m.Reserve = namespace, reserve
		return mooncakeFile{m}
	}},
	{name: loads.Azure, what: "a table of Azure", is: loads.IsTable(loads.Azure), suffix: ".csv", lenient: true, open: openTable, sample: sampleAzure},
	{name: loads.BurstGPT, what: "a table of BurstGPT", is: loads.IsTable(loads.BurstGPT), suffix: ".csv", lenient: true, open: openTable, sample: sampleBurstGPT},
	{name: "weka", what: "a Weka trace", is: func([]byte) bool { return true }, scan: weka.ScanWithin},
}

// mooncakeFile is a file of Mooncake rows.
type mooncakeFile struct{ *weka.Mooncake }

func (m mooncakeFile) Traces() (iter.Seq[*trace.Trace], error) {
	list, err := m.Mooncake.Traces()
	return slices.Values(list), err
}

func openTable(number, _ int, r rules.Rules, reserve trace.Reserve) fileReader {
	return loads.NewTable(number, r.FailedRows == "keep", reserve)
}

// Samples of loads: what their readers decide is in keys of such inputs.
const (
	sampleAzure = `TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:17:03.9799600,4808,10
2024-05-10 00:00:00.009930+00:00,2162,5
5,0,1
x,1,1
1,2`
	sampleBurstGPT = `Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type,Session ID,Elapsed time
5,ChatGPT,472,18,490,Conversation log,a,1.5
7,GPT-4,10,0,10,API log,,1
45.25,ChatGPT,1087,230,1317,Conversation log,a,
6,GPT-4,417,276,693,API log,,2`
	sampleDynamo = `{"schema":"dynamo.request.trace.v1","event_type":"request_end","event_time_unix_ms":500,"agent_context":{"session_id":"a"},"request":{"request_id":"1","model":"m","input_tokens":128,"output_tokens":16,"cached_tokens":0,"request_received_ms":0,"ttft_ms":81.5,"total_time_ms":500.5,"replay":{"trace_block_size":64,"input_length":128,"input_sequence_hashes":[14879255164371896291,7]},"finish_reason_metadata":{"finish_reason":"tool_calls"}}}
{"event":{"schema":"dynamo.request.trace.v1","event_type":"tool_end","event_time_unix_ms":900,"agent_context":{"session_id":"a"},"tool":{"started_at_unix_ms":510,"ended_at_unix_ms":900}}}
{"schema":"dynamo.agent.trace.v1","event_type":"request_end","event_time_unix_ms":900,"agent_context":{"session_id":"x","trajectory_id":"b","parent_trajectory_id":"a"},"request":{"request_id":"2","model":"m","output_tokens":1,"total_time_ms":300,"replay":{"trace_block_size":64,"input_length":70,"input_sequence_hashes":[9,8]}}}
{"schema":"dynamo.request.trace.v1","event_type":"request_end","event_time_unix_ms":2000,"agent_context":{"session_id":"a"},"request":{"request_id":"3","input_tokens":10,"output_tokens":16,"request_received_ms":1300,"total_time_ms":700}}
{"schema":"dynamo.request.trace.v1","event_type":"request_end","event_time_unix_ms":2000,"agent_context":{"session_id":"c","parent_session_id":"z"},"request":{"request_id":"4","input_tokens":10,"output_tokens":0,"request_received_ms":1200,"total_time_ms":1}}
{"schema":"dynamo.request.trace.v1","event_type":"request_end","event_time_unix_ms":2000,"request":{"request_id":"4","input_tokens":10,"output_tokens":0,"total_time_ms":1}}
{"schema":"dynamo.request.trace.v1","event_type":"request_end","event_time_unix_ms":2000,"request":{"request_id":"5","input_tokens":129,"output_tokens":0,"total_time_ms":1,"replay":{"trace_block_size":64,"input_length":129,"input_sequence_hashes":[1]}}}`
	sampleAgentic = `{"request_id":"r0","session_id":"a","timestamp":7.5,"input_length":700,"output_length":2,"hash_ids":[18446744073709551615,4],"prefix_reset":true}
{"request_id":"r1","session_id":"a","timestamp":900,"input_length":1024,"output_length":2,"hash_ids":[18446744073709551615,9],"wait_for":["r0","k1"],"delay":10,"tool_wait_ms":20.5}
{"request_id":"k0","session_id":"k","input_length":1,"output_length":1,"hash_ids":[3],"wait_for":["r0"],"delay_ms":5}
{"request_id":"k1","session_id":"k","output_length":1,"hash_ids":[3,8],"wait_for":["k0"]}
{"request_id":"x","timestamp":3,"input_length":1,"output_length":1,"hash_ids":[3],"wait_for":["k0","r1"]}
{"request_id":"r1","output_length":1,"hash_ids":[]}
{"schema":"dynamo.agentic_mooncake","version":2,"block_size":64,"hash_id_scope":"local"}`
	sampleAgentic2 = `{"schema":"dynamo.agentic_mooncake","version":2,"block_size":64,"hash_id_scope":"local"}
{"request_id":"p0","play_id":"p","session_id":"a","model":"m","input_length":64,"output_length":2,"hash_ids":[1],"not_before_ms":0,"recorded_api_time_ms":100}
{"request_id":"p1","play_id":"p","session_id":"b","model":"n","input_length":65,"output_length":2,"hash_ids":[1,2],"not_before_ms":0,"dependencies":[{"request_id":"p0","trigger":"dispatch","delay_ms":40,"relation":"spawn"}]}
{"request_id":"p2","play_id":"p","session_id":"a","model":"m","input_length":64,"output_length":2,"hash_ids":[3],"not_before_ms":300,"dependencies":[{"request_id":"p0","trigger":"completion","delay_ms":1,"relation":"sequence"},{"request_id":"p1","trigger":"completion","delay_ms":1,"relation":"join"}]}
{"request_id":"q0","play_id":"q","session_id":"a","model":"m","input_length":64,"output_length":2,"hash_ids":[1],"not_before_ms":50}`
	sampleApplied = `{"num_turns":2,"input_prompt_length":32,"assistant_response_length":[16,20],"tool_call_output_length":[80,12],"tool_call_latency":[0.25,1.5],"final_assistant_response_length":64}
{"num_turns":1,"input_prompt_length":32,"assistant_response_length":[],"tool_call_output_length":[80],"tool_call_latency":[0.25],"final_assistant_response_length":64}
{"num_turns":0,"input_prompt_length":0,"assistant_response_length":[],"tool_call_output_length":[],"tool_call_latency":[],"final_assistant_response_length":1}`
	sampleBailian = `{"chat_id":1,"parent_chat_id":-1,"timestamp":61.114,"input_length":33,"output_length":132,"type":"text","turn":1,"hash_ids":[9,8,7]}
{"chat_id":2,"parent_chat_id":1,"timestamp":70.25,"input_length":60,"output_length":40,"type":"search","turn":2,"hash_ids":[9,8,6,5]}
{"chat_id":3,"parent_chat_id":1,"timestamp":71,"input_length":16,"output_length":0,"type":"text","turn":2,"hash_ids":[9]}
{"chat_id":4,"parent_chat_id":3,"timestamp":72,"input_length":0,"output_length":1,"type":"text","turn":3,"hash_ids":[]}
{"chat_id":5,"parent_chat_id":3,"timestamp":73,"input_length":1,"output_length":1,"type":"text","turn":3,"hash_ids":[9,9]}
{"chat_id":6,"parent_chat_id":99,"timestamp":1,"input_length":1,"output_length":1,"hash_ids":[0]}
{"chat_id":7,"parent_chat_id":8,"timestamp":2,"input_length":1,"output_length":1,"hash_ids":[0]}
{"chat_id":8,"parent_chat_id":7,"timestamp":3,"input_length":1,"output_length":1,"hash_ids":[0]}
{"chat_id":8,"parent_chat_id":7,"timestamp":3,"input_length":17,"output_length":1,"hash_ids":[0]}`
)

// textFormats returns the formats of files that hold no JSON.
func textFormats() (list []hfsource.TextFormat) {
	for _, f := range formats {
		if f.suffix != "" {
			list = append(list, hfsource.TextFormat{Suffix: f.suffix, Is: f.is})
		}
	}
	return list
}

// formatNamed returns the format of a name, the last for others: traces of Weka have the names of its generations.
func formatNamed(name string) *format {
	for k := range formats {
		if formats[k].name == name {
			return &formats[k]
		}
	}
	return &formats[len(formats)-1]
}

// rowsOf returns the format of a file whose first bytes show a trace, "" for others: such a file need not be opened again for its format.
func rowsOf(first []byte) string {
	if weka.IsTrace(first) {
		return formatNamed("").name
	}
	return ""
}

// formatOf returns the format of a file whose first row is given.
func formatOf(first []byte) *format {
	if weka.IsTrace(first) { // of megabytes, through which no other format needs to look
		return &formats[len(formats)-1]
	}
	k := 0
	for !formats[k].is(first) {
		k++
	}
	return &formats[k]
}

// read scans a row, and names the format of its trace where the reader does not.
func (f *format) read(row []byte, r rules.Rules, reserve trace.Reserve) (*trace.Trace, error) {
	t, err := f.scan(row, r, reserve)
	if err == nil {
		t.Format = cmp.Or(t.Format, f.name)
	}
	return t, err
}

// formatProbes returns, by name, the probes of the formats of files that have a sample.
func formatProbes(s *hfsource.Snapshot, r rules.Rules) map[string]string {
	probes := map[string]string{}
	for _, file := range s.Files {
		if f := formatNamed(file.Rows); f.sample != "" && probes[f.name] == "" {
			probes[f.name] = f.probe(r)
		}
	}
	return probes
}

// probe returns the digest of what the sample becomes.
func (f *format) probe(r rules.Rules) string {
	p := &structureProbe{hash: sha256.New(), rules: r, caches: prefixCaches{}}
	if f.open != nil {
		p.addFile(f.sample, f.open(0, 0, r, nil))
		if f.more != "" {
			p.addFile(f.more, f.open(1, 1, r, nil))
		}
		return hexSum(p.hash)
	}
	for row := range strings.Lines(f.sample) {
		p.add(f.read([]byte(row), r, nil))
	}
	return hexSum(p.hash)
}
