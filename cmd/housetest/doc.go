// Package housetest holds the tests of the house itself: which room may import which, how
// long a file may be, what a folder may not be called, that money is never multiplied with a
// bare operator, and that the documents say what the code does.
//
// There is nothing here to import. What a room does is tested in the room.
package housetest
