package alert

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// fieldError names the place in the file and the field in the document.
type fieldError struct {
	line  int
	field string
	err   error
}

func (e *fieldError) Error() string {
	if e.line == 0 {
		return fmt.Sprintf("%s: %v", e.field, e.err)
	}
	return fmt.Sprintf("line %d: %s: %v", e.line, e.field, e.err)
}
func (e *fieldError) Unwrap() error { return e.err }

func wrong(n ast.Node, field, format string, args ...any) error {
	e := &fieldError{field: field, err: fmt.Errorf(format, args...)}
	n = closest(n, field)
	if n != nil && n.GetToken() != nil && n.GetToken().Position != nil {
		e.line = n.GetToken().Position.Line
	}
	return e
}

// closest finds the entry of a rule that a field's path ends in, so that the line is the
// field's and not the rule's.
func closest(n ast.Node, path string) ast.Node {
	entries, _ := values(n)
	for _, e := range entries {
		for _, part := range strings.Split(path, ".") {
			if name, _, _ := strings.Cut(part, "["); name == e.Key.GetToken().Value {
				return e.Key
			}
		}
	}
	return n
}

// values returns the entries of a mapping in the order of the file.
func values(n ast.Node) ([]*ast.MappingValueNode, bool) {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, true
	}
	return nil, false
}

// fill reads a mapping into a struct, field by field, and returns every error: each unknown
// field and each value that does not fit, not only the first.
func fill(n ast.Node, path string, into any) error {
	entries, ok := values(n)
	if !ok {
		return wrong(n, path, "want a mapping of fields")
	}
	v := reflect.ValueOf(into).Elem()
	fields, names := map[string]reflect.Value{}, []string{}
	for i := range v.NumField() {
		if tag := v.Type().Field(i).Tag.Get("yaml"); tag != "" {
			fields[tag] = v.Field(i)
			names = append(names, tag)
		}
	}
	var errs []error
	for _, e := range entries {
		key := strings.Trim(e.Key.GetToken().Value, " ")
		field, known := fields[key]
		if !known {
			errs = append(errs, wrong(e.Key, join(path, key), "unknown field; known here are %s", strings.Join(names, ", ")))
			continue
		}
		if e.Value == nil || e.Value.Type() == ast.NullType {
			errs = append(errs, wrong(e.Key, join(path, key), "has no value"))
			continue
		}
		errs = append(errs, fillValue(e.Value, join(path, key), field))
	}
	return errors.Join(errs...)
}

// node is a part of the document that is read later, by who knows its form.
type node struct{ ast.Node }

func fillValue(n ast.Node, path string, field reflect.Value) error {
	switch {
	case field.Type() == reflect.TypeFor[node]():
		field.Set(reflect.ValueOf(node{n}))
		return nil
	case field.Kind() == reflect.Slice && field.Type().Elem().Kind() == reflect.Struct:
		return fillSlice(n, path, field)
	case field.Kind() == reflect.Struct:
		return fill(n, path, field.Addr().Interface())
	case field.Kind() == reflect.Slice:
		return fillTexts(n, path, field)
	}
	text, ok := scalar(n)
	if !ok {
		return wrong(n, path, "want a plain value")
	}
	field.SetString(text)
	return nil
}

// fillTexts reads a list of plain values, or one value where a list may stand.
func fillTexts(n ast.Node, path string, field reflect.Value) error {
	items := []ast.Node{n}
	if seq, ok := n.(*ast.SequenceNode); ok {
		items = seq.Values
	}
	for _, item := range items {
		text, ok := scalar(item)
		if !ok {
			return wrong(n, path, "want a list of plain values")
		}
		field.Set(reflect.Append(field, reflect.ValueOf(text)))
	}
	return nil
}

// scalar returns a plain value as it is written: a number never passes through a float.
func scalar(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, true
	}
	return "", false
}

func fillSlice(n ast.Node, path string, field reflect.Value) error {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		return wrong(n, path, "want a list")
	}
	var errs []error
	for i, item := range seq.Values {
		one := reflect.New(field.Type().Elem()).Elem()
		errs = append(errs, fillValue(item, fmt.Sprintf("%s[%d]", path, i), one))
		field.Set(reflect.Append(field, one))
	}
	return errors.Join(errs...)
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
