package main
import "fmt"
type demoCmd struct{}
type upCmd struct{}
type pullCmd struct{}
type reportCmd struct{}
type alertCmd struct{}
type deadCmd struct{}
type checkConfigCmd struct{}
type docsCmd struct{}
func (demoCmd) Run(e *env) error { return fmt.Errorf("x") }
func (upCmd) Run(e *env) error { return fmt.Errorf("x") }
func (pullCmd) Run(e *env) error { return fmt.Errorf("x") }
func (reportCmd) Run(e *env) error { return fmt.Errorf("x") }
func (alertCmd) Run(e *env) error { return fmt.Errorf("x") }
func (deadCmd) Run(e *env) error { return fmt.Errorf("x") }
func (checkConfigCmd) Run(e *env) error { return fmt.Errorf("x") }
func (docsCmd) Run(e *env) error { return fmt.Errorf("x") }
