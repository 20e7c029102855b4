package page

import (
	"math"
	"slices"
)

// columnOf returns the column of an instant, of so many that cut the axis from 0 to its end.
func columnOf(at, end int64, columns int) int {
	return int(float64(at) / (float64(end) + 1) * float64(columns))
}

// thin returns the rows that stay of lines which share their instants: of each column of time the first, the last, and those with the
// least and the greatest value of each line.
func thin(at []int64, end int64, columns int, lines ...[]float64) (rows []int) {
	for from := 0; from < len(at); {
		column, to := columnOf(at[from], end, columns), from
		for to < len(at) && columnOf(at[to], end, columns) == column {
			to++
		}
		kept := []int{from, to - 1}
		for _, values := range lines {
			kept = append(kept, extremes(values, from, to)...)
		}
		slices.Sort(kept)
		rows = append(rows, slices.Compact(kept)...)
		from = to
	}
	return rows
}

// extremes returns the first rows with the least and the greatest of the values that are known.
func extremes(values []float64, from, to int) []int {
	least, most := -1, -1
	for k := from; k < to; k++ {
		switch v := values[k]; {
		case math.IsNaN(v):
		case least < 0:
			least, most = k, k
		case v < values[least]:
			least = k
		case v > values[most]:
			most = k
		}
	}
	if least < 0 {
		return nil
	}
	return []int{least, most}
}

// changes returns the first row, those whose value is another than the one before, and the last.
func changes[T comparable](values []T) (rows []int) {
	for k, v := range values {
		if k == 0 || k == len(values)-1 || v != values[k-1] {
			rows = append(rows, k)
		}
	}
	return rows
}

// pick returns the values of some rows.
func pick[T any](values []T, rows []int) []T {
	list := make([]T, len(rows))
	for k, row := range rows {
		list[k] = values[row]
	}
	return list
}
