package engine

// index finds the slot of the oldest visible copy of a block by its chain number. Chain numbers come in runs, so the table
// is in pages of consecutive numbers, which exist while one of their blocks does: its size follows the pool, not the load.
type index struct {
	pages  []int32 // of each pageSize chain numbers: the page + 1; 0: none
	slots  [][pageSize]int32
	counts []int32 // of each page: its blocks
	unused []int32
}

const (
	pageBits = 5
	pageSize = 1 << pageBits
)

// find returns the slot of a chain number, or none.
func (x *index) find(chain uint32) int32 {
	p := chain >> pageBits
	if int(p) >= len(x.pages) || x.pages[p] == 0 {
		return none
	}
	return x.slots[x.pages[p]-1][chain%pageSize] - 1
}

// set stores the slot of a chain number, or that it has none any more.
func (x *index) set(chain uint32, slot int32) {
	p := chain >> pageBits
	if int(p) >= len(x.pages) {
		x.pages = append(x.pages, make([]int32, int(p)+1-len(x.pages))...)
	}
	if x.pages[p] == 0 {
		x.pages[p] = x.newPage() + 1
	}
	page := x.pages[p] - 1
	place := &x.slots[page][chain%pageSize]
	switch {
	case *place == 0 && slot != none:
		x.counts[page]++
	case *place != 0 && slot == none:
		x.counts[page]--
	}
	*place = slot + 1
	if x.counts[page] == 0 {
		x.pages[p] = 0
		x.unused = append(x.unused, page)
	}
}

// newPage returns an empty page.
func (x *index) newPage() int32 {
	if n := len(x.unused); n > 0 {
		page := x.unused[n-1]
		x.unused = x.unused[:n-1]
		return page
	}
	x.slots = append(x.slots, [pageSize]int32{})
	x.counts = append(x.counts, 0)
	return int32(len(x.slots) - 1)
}
