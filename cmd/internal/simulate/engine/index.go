package engine

import "math/bits"

// index finds extents by the chain number that they begin with. Chain numbers come in runs, so the table is in pages of consecutive
// numbers, which exist while an extent begins in them: its size follows the pool, not the load.
type index struct {
	pages  []int32 // of each pageSize chain numbers: the page + 1; 0: none
	list   []indexPage
	unused []int32
}

// indexPage is the extents that begin in a page, and which numbers have one.
type indexPage struct {
	begins  uint64
	extents [pageSize]int32
}

const (
	pageBits = 6
	pageSize = 1 << pageBits
)

// find returns the extent that begins with a chain number, or none.
func (x *index) find(chain uint32) int32 {
	p := chain >> pageBits
	if int(p) >= len(x.pages) || x.pages[p] == 0 {
		return none
	}
	page := &x.list[x.pages[p]-1]
	if page.begins>>(chain%pageSize)&1 == 0 {
		return none
	}
	return page.extents[chain%pageSize]
}

// put stores the extent that begins with a chain number. Another one that did is forgotten.
func (x *index) put(chain uint32, extent int32) {
	p := chain >> pageBits
	if int(p) >= len(x.pages) {
		x.pages = append(x.pages, make([]int32, int(p)+1-len(x.pages))...)
	}
	if x.pages[p] == 0 {
		x.pages[p] = x.newPage() + 1
	}
	page := &x.list[x.pages[p]-1]
	page.begins |= 1 << (chain % pageSize)
	page.extents[chain%pageSize] = extent
}

// remove forgets the extent that begins with a chain number.
func (x *index) remove(chain uint32) {
	p := chain >> pageBits
	page := &x.list[x.pages[p]-1]
	if page.begins &^= 1 << (chain % pageSize); page.begins == 0 {
		x.unused = append(x.unused, x.pages[p]-1)
		x.pages[p] = 0
	}
}

// newPage returns an empty page.
func (x *index) newPage() int32 {
	if n := len(x.unused); n > 0 {
		page := x.unused[n-1]
		x.unused = x.unused[:n-1]
		return page
	}
	x.list = append(x.list, indexPage{})
	return int32(len(x.list) - 1)
}

// next returns the first chain number from first on, before end, with which an extent begins; end without one.
func (x *index) next(first, end uint32) uint32 {
	for first < end {
		p := first >> pageBits
		if int(p) >= len(x.pages) {
			return end
		}
		if x.pages[p] > 0 {
			if begins := x.list[x.pages[p]-1].begins >> (first % pageSize); begins != 0 {
				return min(first+uint32(bits.TrailingZeros64(begins)), end)
			}
		}
		first = (p + 1) << pageBits
	}
	return end
}

// before returns the last chain number from first on, at most last, with which an extent begins; false without one.
func (x *index) before(first, last uint32) (uint32, bool) {
	for at := int64(last); at >= int64(first); at = at>>pageBits<<pageBits - 1 {
		p := at >> pageBits
		if int(p) >= len(x.pages) || x.pages[p] == 0 {
			continue
		}
		if begins := x.list[x.pages[p]-1].begins << (pageSize - 1 - at%pageSize); begins != 0 {
			at -= int64(bits.LeadingZeros64(begins))
			return uint32(at), at >= int64(first)
		}
	}
	return 0, false
}
