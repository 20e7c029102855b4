package engine

// KVEvent says that the blocks of a range of chain numbers became visible on a worker, or that none of their copies is left. A
// private one says the same of Count blocks that only their own requests find.
type KVEvent struct {
	Run
	Removed, Private bool
}

// eventLog collects the events of a pass in their order, neighbours as ranges.
type eventLog struct{ list []KVEvent }

// add adds blocks with consecutive chain numbers, if anybody asks.
func (l *eventLog) add(chain uint32, count int, removed bool) {
	if l != nil {
		l.append(Run{chain, uint32(count)}, removed)
	}
}

func (l *eventLog) append(r Run, removed bool) {
	if n := len(l.list); n > 0 {
		e := &l.list[n-1]
		switch {
		case e.Removed != removed || e.Private:
		case e.First+e.Count == r.First:
			e.Count += r.Count
			return
		case removed && r.First+r.Count == e.First: // a sequence is evicted from its end
			e.First, e.Count = r.First, e.Count+r.Count
			return
		}
	}
	l.list = append(l.list, KVEvent{Run: r, Removed: removed})
}

// addPrivate adds a private block.
func (l *eventLog) addPrivate(removed bool) {
	if l == nil {
		return
	}
	if n := len(l.list); n > 0 && l.list[n-1].Private && l.list[n-1].Removed == removed {
		l.list[n-1].Count++
		return
	}
	l.list = append(l.list, KVEvent{Run: Run{Count: 1}, Removed: removed, Private: true})
}
