// Package scrape reads the metrics pages of inference servers beside a run: doc/spec/replay.md 8.12.
//
// A Collector has a goroutine and a connection for each page. It asks every 0.333 s, notes which values have changed since the
// answer before, and appends that to a file of the run. Nothing of it can delay or fail the run: an answer is bounded in its time,
// its bytes and its series, and failures are counted.
//
// # The file
//
// server_metrics.jsonl has one JSON object in a line, of three kinds:
//
//	{"endpoint":0,"url":"http://h/metrics","default":true}
//	{"series":7,"endpoint":0,"name":"vllm:prompt_tokens","type":"counter","labels":{"engine":"0"},"help":"Prompt tokens."}
//	{"series":8,"endpoint":0,"name":"vllm:ttft_seconds","type":"histogram","labels":{},"bounds":["0.1","+Inf"]}
//	{"endpoint":0,"at":1700000000123456789,"took":1234567,"values":[[7,130],[8,2,0.3,1,2]],"gone":[5]}
//
// An endpoint is a page, numbered from 0; its URL has no user, password or query. Before its first answer another line of its number
// may give it another URL. A series is numbered from 0 over all
// endpoints, and its line stands before its first value. The last line is an answer: the wall clock at which it had arrived and
// how long it took, in nanoseconds; the series whose values differ from those of the answer before, each with its values; and the
// series that the answer before had and this one lacks. A counter and a gauge have one value; a summary has its count and sum; a
// histogram has its count, its sum and the cumulative count of each bucket. A killed run leaves whole lines, and maybe a part of
// one more.
package scrape
