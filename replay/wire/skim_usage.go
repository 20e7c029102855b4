package wire

// parseUsage decodes the usage object of an event. Unless AIPerf is imitated, Completion counts reasoning.
func (d *decoder) parseUsage(b []byte) Usage {
	u := parseUsage(b)
	if !d.aiperf {
		u = u.withReasoning()
	}
	return u
}

// parseUsage decodes a usage object.
func parseUsage(b []byte) Usage {
	if u, sure := skimUsage(b); sure {
		return u
	}
	return decodeUsage(b)
}

// skimUsage reads a usage object. The counts are valid only when sure.
func skimUsage(b []byte) (u Usage, sure bool) {
	u = NoUsage
	fallbacks := [4]int64{Unknown, Unknown, Unknown, Unknown} // of Cached
	m := openObject(b, skipSpace(b, 0))
	var seen seenMembers
	for m.next() {
		switch string(m.name) {
		case "prompt_tokens":
			seen.add(0, &m)
			u.Prompt = m.readCount()
		case "completion_tokens":
			seen.add(1, &m)
			u.Completion = m.readCount()
		case "completion_tokens_details":
			seen.add(2, &m)
			u.Reasoning = skimDetail(&m, "reasoning_tokens")
		case "prompt_tokens_details":
			seen.add(3, &m)
			u.Cached = skimDetail(&m, "cached_tokens")
		case "input_tokens_details":
			seen.add(4, &m)
			fallbacks[0] = skimDetail(&m, "cached_tokens")
		case "cache_read_input_tokens":
			seen.add(5, &m)
			fallbacks[1] = m.readCount()
		case "cache_creation_input_tokens":
			seen.add(6, &m)
			u.CacheWrite = m.readCount()
		case "prompt_cache_miss_tokens":
			seen.add(7, &m)
			u.CacheMiss = m.readCount()
		case "total_tokens":
			seen.add(8, &m)
			u.Total = m.readCount()
		case "prompt_cache_hit_tokens":
			seen.add(9, &m)
			fallbacks[2] = m.readCount()
		case "cached_tokens":
			seen.add(10, &m)
			fallbacks[3] = m.readCount()
		default:
			m.skip()
		}
	}
	for _, n := range fallbacks {
		if u.Cached < 0 {
			u.Cached = n
		}
	}
	return u, m.at >= 0 && skipSpace(b, m.at) == len(b)
}

// skimDetail reads one count of a nested object, Unknown where it is not there.
func skimDetail(outer *objectReader, name string) int64 {
	n := Unknown
	if outer.skipNull() {
		return n
	}
	m := openObject(outer.b, outer.at)
	var seen seenMembers
	for m.next() {
		if string(m.name) == name {
			seen.add(0, &m)
			n = m.readCount()
		} else {
			m.skip()
		}
	}
	outer.at = m.at
	return n
}
