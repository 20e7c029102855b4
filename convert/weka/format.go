package weka

// Formats of public corpora: the generations of kv-cache-tester's, and Mooncake's. A format only names what a trace looks like.
// What the trace means follows from its fields one by one.
const (
	FormatV1     = "v1"     // no hash_id_scope: ids name blocks of one context
	FormatV6     = "v6"     // global ids, lists of floor(in / block size)
	FormatV8     = "v8"     // ids of the trace from 1 on, with totals
	FormatAgentX = "agentx" // ids of the trace from 0 on, without totals
	FormatNeon   = "neon"   // global ids, lists whose lengths do not follow from in
	FormatLocal  = "local"  // ids of the trace, otherwise like none of the above

	FormatMooncake = "mooncake" // one request a line
)

// Format names the format that a trace looks like.
func (t *Trace) Format() string {
	if t.format != "" {
		return t.format
	}
	switch t.Scope {
	case ScopeAbsent:
		return FormatV1
	case ScopeGlobal:
		if t.hasOddLengths() {
			return FormatNeon
		}
		return FormatV6
	}
	switch smallest, any := t.smallestID(); {
	case any && smallest == 1 && t.HasTotals:
		return FormatV8
	case any && smallest == 0 && !t.HasTotals:
		return FormatAgentX
	}
	return FormatLocal
}

// each calls f for every request, those of subagents included.
func (t *Trace) each(f func(*Request)) {
	for k := range t.Entries {
		e := &t.Entries[k]
		if e.Subagent == nil {
			f(&e.Request)
			continue
		}
		for j := range e.Subagent.Requests {
			f(&e.Subagent.Requests[j])
		}
	}
}

// hasOddLengths reports whether a list is neither as long as its prompt has whole blocks nor one longer.
func (t *Trace) hasOddLengths() (found bool) {
	t.each(func(r *Request) {
		full := r.In / t.BlockSize
		if n := int64(r.IDs.Len); n != full && n != full+1 {
			found = true
		}
	})
	return found
}

// smallestID returns the smallest id of the trace; any is false where it has none.
func (t *Trace) smallestID() (id int64, any bool) {
	t.each(func(r *Request) {
		for _, run := range r.IDs.Runs {
			if !any || run.First < id {
				id, any = run.First, true
			}
		}
	})
	return id, any
}
