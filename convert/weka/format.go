package weka

import "github.com/agentx/agentx/trace"

// Formats of public corpora: the generations of kv-cache-tester's. That of Mooncake is mmapcache.FormatMooncake. A format only names what a trace looks like.
// What the trace means follows from its fields one by one.
const (
	FormatV1     = "v1"     // no hash_id_scope: ids name blocks of one context
	FormatV6     = "v6"     // global ids, lists of floor(in / block size)
	FormatV8     = "v8"     // ids of the trace from 1 on, with totals
	FormatAgentX = "agentx" // ids of the trace from 0 on, without totals
	FormatNeon   = "neon"   // global ids, lists whose lengths do not follow from in
	FormatLocal  = "local"  // ids of the trace, otherwise like none of the above
)

// formatOf names the generation that a trace looks like.
func formatOf(t *trace.Trace) string {
	switch t.Scope {
	case trace.ScopeAbsent:
		return FormatV1
	case trace.ScopeGlobal:
		if hasOddLengths(t) {
			return FormatNeon
		}
		return FormatV6
	}
	switch smallest, any := smallestID(t); {
	case any && smallest == 1 && t.HasTotals:
		return FormatV8
	case any && smallest == 0 && !t.HasTotals:
		return FormatAgentX
	}
	return FormatLocal
}

// hasOddLengths reports whether a list is neither as long as its prompt has whole blocks nor one longer.
func hasOddLengths(t *trace.Trace) bool {
	for _, r := range t.Requests() {
		full := r.In / t.BlockSize
		if n := int64(r.IDs.Len); n != full && n != full+1 {
			return true
		}
	}
	return false
}

// smallestID returns the smallest id of the trace; any is false where it has none.
func smallestID(t *trace.Trace) (id int64, any bool) {
	for _, r := range t.Requests() {
		for _, run := range r.IDs.Runs {
			if !any || run.First < id {
				id, any = run.First, true
			}
		}
	}
	return id, any
}
