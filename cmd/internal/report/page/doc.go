// Package page writes a page of charts as one HTML file that opens from disk, without a network. It knows tables of numbers and
// texts, not requests: who calls it says what they mean.
//
// A [Page] has a kind, a head and tables. [Write] packs the columns, and adds the style and the drawing code without the lines of its comments: the
// files of js, and those of its folders that the kind needs. Equal pages give equal bytes.
//
// The drawing code is plain JavaScript, one noun a file, each file an element script of its own: what one declares, all see. A kind of
// page is a function that a file puts into the object pages: pages.run draws a Page whose kind is run. It gets the page with its columns
// unpacked (column.js) and the element that is to hold everything. It makes one TimeRange (time.js), and a Chart (chart.js) of marks:
// lines, points, areas, cells. All charts and tables that watch the TimeRange follow its selection.
//
// Nothing of the data can become markup or script: it is JSON in which <, > and & are escaped, and the drawing code makes elements
// and sets their text, never markup.
package page
