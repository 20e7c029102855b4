package conductor

// heap is a binary heap whose items know their index, so that one can be removed from the middle.
type heap[T any] struct {
	items    []T
	less     func(a, b T) bool
	setIndex func(item T, at int) // called with the new index of an item, -1 when it is removed; may be nil
	work     *int                 // counts the items read or written; may be nil
}

func (h *heap[T]) len() int { return len(h.items) }

// count counts items that were read or written.
func (h *heap[T]) count(n int) {
	if h.work != nil {
		*h.work += n
	}
}

// put writes an item to an index.
func (h *heap[T]) put(item T, at int) {
	h.items[at] = item
	if h.setIndex != nil {
		h.setIndex(item, at)
	}
	h.count(1)
}

// push adds an item.
func (h *heap[T]) push(item T) {
	h.items = append(h.items, item)
	h.siftUp(item, len(h.items)-1)
}

// remove removes and returns the item at an index.
func (h *heap[T]) remove(at int) T {
	out, last := h.items[at], len(h.items)-1
	moved := h.items[last]
	var none T
	h.items[last] = none // drops the reference
	h.items = h.items[:last]
	if at < last {
		h.sift(moved, at)
	}
	if h.setIndex != nil {
		h.setIndex(out, -1)
	}
	h.count(2)
	return out
}

// update restores the order after the rank of an item has changed. The item is at an index, or at -1 when it is not in the
// heap; in says whether it belongs there.
func (h *heap[T]) update(item T, at int, in bool) {
	switch {
	case in && at < 0:
		h.push(item)
	case in:
		h.sift(item, at)
	case at >= 0:
		h.remove(at)
	}
}

// sift writes an item to an index or, where it has to go, above or below.
func (h *heap[T]) sift(item T, at int) {
	if at > 0 && h.less(item, h.items[(at-1)/2]) {
		h.siftUp(item, at)
		return
	}
	for {
		child := 2*at + 1
		if child >= len(h.items) {
			break
		}
		if child+1 < len(h.items) && h.less(h.items[child+1], h.items[child]) {
			child++
		}
		h.count(2)
		if !h.less(h.items[child], item) {
			break
		}
		h.put(h.items[child], at)
		at = child
	}
	h.put(item, at)
}

// siftUp writes an item to an index or, where it has to go, above.
func (h *heap[T]) siftUp(item T, at int) {
	for at > 0 {
		parent := (at - 1) / 2
		h.count(1)
		if !h.less(item, h.items[parent]) {
			break
		}
		h.put(h.items[parent], at)
		at = parent
	}
	h.put(item, at)
}
