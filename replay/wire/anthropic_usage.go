package wire

// The Messages API reports usage twice: message_start has the counts of the prompt, message_delta those of the answer, and
// either may repeat the others; Dynamo has usage in every content_block_delta. The last value of each count holds, but a 0 does not
// replace more, unless AIPerf is imitated. Its input_tokens leaves out what was read from and written to the prefix cache.

// parseBilled decodes a usage object of the Messages API.
func parseBilled(raw []byte) Usage {
	u, sure := skimBilled(raw)
	if !sure {
		u = decodeBilled(raw)
	}
	return u
}

// completionOf returns the completion tokens of a usage object.
func (d *decoder) completionOf(usage []byte) int64 {
	if d.api == MessagesAPI {
		return parseBilled(usage).Completion
	}
	return d.parseUsage(usage).Completion
}

// addBilled adds a usage object of the Messages API. Prompt is then without the cached tokens.
func (u *Usage) addBilled(raw []byte, aiperf bool) {
	more := parseBilled(raw)
	for _, count := range []struct{ to, from *int64 }{
		{&u.Prompt, &more.Prompt}, {&u.Completion, &more.Completion}, {&u.Cached, &more.Cached}, {&u.CacheWrite, &more.CacheWrite},
	} {
		if *count.from > 0 || *count.from == 0 && (aiperf || *count.to == Unknown) {
			*count.to = *count.from
		}
	}
}

// withCached returns the usage with a Prompt that counts all of the prompt: what was read from and written to the cache, too.
func (u Usage) withCached() Usage {
	if u.Prompt != Unknown {
		u.Prompt += max(0, u.Cached) + max(0, u.CacheWrite)
	}
	return u
}

// decodeBilled decodes any usage object of the Messages API.
func decodeBilled(raw []byte) Usage {
	top := parseJSON(raw)
	u := NoUsage
	u.Prompt, u.Completion = top.member("input_tokens").count(), top.member("output_tokens").count()
	u.Cached, u.CacheWrite = top.member("cache_read_input_tokens").count(), top.member("cache_creation_input_tokens").count()
	return u
}

// skimBilled reads a usage object of the Messages API. The counts are valid only when sure.
func skimBilled(b []byte) (u Usage, sure bool) {
	u = NoUsage
	m := openObject(b, skipSpace(b, 0))
	var seen seenMembers
	for m.next() {
		switch string(m.name) {
		case "input_tokens":
			seen.add(0, &m)
			u.Prompt = m.readCount()
		case "output_tokens":
			seen.add(1, &m)
			u.Completion = m.readCount()
		case "cache_read_input_tokens":
			seen.add(2, &m)
			u.Cached = m.readCount()
		case "cache_creation_input_tokens":
			seen.add(3, &m)
			u.CacheWrite = m.readCount()
		default:
			m.skip()
		}
	}
	return u, m.at >= 0 && skipSpace(b, m.at) == len(b)
}
