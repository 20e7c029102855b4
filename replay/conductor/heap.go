package conductor

// heap is a binary heap. What is in it may know where it stands, so that it can be taken out of the middle.
type heap[T any] struct {
	items []T
	less  func(a, b T) bool
	place func(item T, at int) // tells an item where it stands, -1 when it has left; may be nil
	work  *int                 // counts the items that were read or written; may be nil
}

func (h *heap[T]) len() int { return len(h.items) }

func (h *heap[T]) count(n int) {
	if h.work != nil {
		*h.work += n
	}
}

// put writes an item to a place.
func (h *heap[T]) put(item T, at int) {
	h.items[at] = item
	if h.place != nil {
		h.place(item, at)
	}
	h.count(1)
}

func (h *heap[T]) push(item T) {
	h.items = append(h.items, item)
	h.up(item, len(h.items)-1)
}

// remove takes out the item at a place.
func (h *heap[T]) remove(at int) T {
	out, last := h.items[at], len(h.items)-1
	moved := h.items[last]
	var none T
	h.items[last] = none // no reference to what has left
	h.items = h.items[:last]
	if at < last {
		h.settle(moved, at)
	}
	if h.place != nil {
		h.place(out, -1)
	}
	h.count(2)
	return out
}

// fix puts the item at a place where it belongs after its rank has changed.
func (h *heap[T]) fix(at int) { h.settle(h.items[at], at) }

// keep puts an item that stands at a place, or at -1, where it belongs, or takes it out.
func (h *heap[T]) keep(item T, at int, in bool) {
	switch {
	case in && at < 0:
		h.push(item)
	case in:
		h.fix(at)
	case at >= 0:
		h.remove(at)
	}
}

func (h *heap[T]) settle(item T, at int) {
	if at > 0 && h.less(item, h.items[(at-1)/2]) {
		h.up(item, at)
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

func (h *heap[T]) up(item T, at int) {
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
