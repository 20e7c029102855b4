package wire

// parseUsage decodes the usage object of an event.
func parseUsage(b []byte) Usage {
	if u, sure := skimUsage(b); sure {
		return u
	}
	return decodeUsage(b)
}

// skimUsage reads a usage object. The counts are valid only when sure.
func skimUsage(b []byte) (u Usage, sure bool) {
	u = NoUsage
	second, third := Unknown, Unknown // the fallbacks of Cached
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
			second = skimDetail(&m, "cached_tokens")
		case "cache_read_input_tokens":
			seen.add(5, &m)
			third = m.readCount()
		case "cache_creation_input_tokens":
			seen.add(6, &m)
			u.CacheWrite = m.readCount()
		case "prompt_cache_miss_tokens":
			seen.add(7, &m)
			u.CacheMiss = m.readCount()
		case "total_tokens":
			seen.add(8, &m)
			u.Total = m.readCount()
		default:
			m.skip()
		}
	}
	if u.Cached < 0 {
		u.Cached = second
	}
	if u.Cached < 0 {
		u.Cached = third
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
