output "role_arn" {
  description = "For `role: {arn: ...}` of the sources awscur, awsinventory and awsprices."
  value       = aws_iam_role.idlewatt.arn
}

output "member_policy" {
  description = "Policy for the role of each member account."
  value       = jsonencode(local.member_policy)
}
