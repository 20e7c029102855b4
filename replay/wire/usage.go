package wire

// The Messages API reports usage twice: message_start has the counts of the prompt, message_delta those of the answer, and
// either may repeat the others; Dynamo has usage in every content_block_delta. The last value of each count holds, but a 0 does not
// replace more, unless AIPerf is imitated. Its input_tokens leaves out what was read from and written to the prefix cache.

// readUsage reads any usage object. A count that is no whole number is Unknown.
func readUsage(raw []byte, api API) Usage {
	var r reading
	if !r.read(raw, usageShapes[api]) {
		return NoUsage
	}
	at := func(i int) int64 { return r.counts[i] - 1 }
	u := Usage{Prompt: at(countPrompt), Completion: at(countCompletion), Reasoning: at(countReasoning), Cached: Unknown, CacheWrite: at(countCacheWrite), CacheMiss: at(countCacheMiss), Total: at(countTotal)}
	for i := countCached; i < numCounts && u.Cached < 0; i++ {
		u.Cached = at(i)
	}
	return u
}

// readUsage reads the usage object of an event. Unless AIPerf is imitated, Completion counts reasoning, as all but a few servers report
// it. Of those few the total shows it.
func (d *decoder) readUsage(raw []byte) Usage {
	u := readUsage(raw, d.api)
	if !d.aiperf && u.Reasoning > 0 && u.Prompt >= 0 && u.Completion >= 0 && u.Total == u.Prompt+u.Completion+u.Reasoning {
		u.Completion += u.Reasoning
	}
	return u
}

// addBilled adds a usage object of the Messages API. Prompt is then without the cached tokens.
func (u *Usage) addBilled(raw []byte, aiperf bool) {
	more := readUsage(raw, MessagesAPI)
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

// isZero reports whether a usage object has no digit above 0 outside its texts.
func isZero(usage []byte) bool {
	inText := false
	for i := 0; i < len(usage); i++ {
		switch c := usage[i]; {
		case c == '"':
			inText = !inText
		case inText && c == '\\':
			i++
		case !inText && c >= '1' && c <= '9':
			return false
		}
	}
	return true
}
