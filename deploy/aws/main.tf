# What idlewatt needs in the account that has the billing bucket: one role with the least rights.
# The JSON files beside this one are the same policies, for people who do not use Terraform.

terraform {
  required_version = ">= 1.5"
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.0"
    }
  }
}

locals {
  bucket = "arn:aws:s3:::${var.bucket}"
  below  = var.prefix == "" ? "*" : "${var.prefix}/*"
  role   = "arn:aws:iam::${var.account}:role/${var.role_name}"

  trust_policy = {
    Version = "2012-10-17"
    Statement = [{
      Sid       = "LetIdlewattIn"
      Effect    = "Allow"
      Principal = { AWS = var.trusted_principal }
      Action    = "sts:AssumeRole"
      Condition = { StringEquals = { "sts:ExternalId" = var.external_id } }
    }]
  }

  see_machines = {
    Sid    = "SeeMachinesAndPrices"
    Effect = "Allow"
    Action = [
      "ec2:DescribeInstances",
      "ec2:DescribeRegions",
      "ec2:DescribeSpotPriceHistory",
      "ec2:DescribeCapacityReservations",
      "pricing:GetProducts",
    ]
    Resource = "*"
  }

  policy = {
    Version = "2012-10-17"
    Statement = concat([
      {
        Sid       = "ListExports"
        Effect    = "Allow"
        Action    = "s3:ListBucket"
        Resource  = local.bucket
        Condition = { StringLike = { "s3:prefix" = local.below } }
      },
      {
        Sid      = "ReadExports"
        Effect   = "Allow"
        Action   = "s3:GetObject"
        Resource = "${local.bucket}/${local.below}"
      },
      local.see_machines,
      ], length(var.member_roles) == 0 ? [] : [{
        Sid      = "AskMemberAccounts"
        Effect   = "Allow"
        Action   = "sts:AssumeRole"
        Resource = var.member_roles
    }])
  }

  # For the role of each member account; its trust policy is the one above.
  member_policy = {
    Version   = "2012-10-17"
    Statement = [local.see_machines]
  }

  bucket_policy = {
    Version = "2012-10-17"
    Statement = [
      {
        Sid       = "LetAWSDeliver"
        Effect    = "Allow"
        Principal = { Service = ["bcm-data-exports.amazonaws.com", "billingreports.amazonaws.com"] }
        Action    = ["s3:PutObject", "s3:GetBucketPolicy"]
        Resource  = [local.bucket, "${local.bucket}/*"]
        Condition = {
          StringLike = {
            "aws:SourceAccount" = var.account
            "aws:SourceArn" = [
              "arn:aws:cur:us-east-1:${var.account}:definition/*",
              "arn:aws:bcm-data-exports:us-east-1:${var.account}:export/*",
            ]
          }
        }
      },
      {
        Sid       = "LetIdlewattList"
        Effect    = "Allow"
        Principal = { AWS = local.role }
        Action    = "s3:ListBucket"
        Resource  = local.bucket
        Condition = { StringLike = { "s3:prefix" = local.below } }
      },
      {
        Sid       = "LetIdlewattRead"
        Effect    = "Allow"
        Principal = { AWS = local.role }
        Action    = "s3:GetObject"
        Resource  = "${local.bucket}/${local.below}"
      },
    ]
  }
}

resource "aws_iam_role" "idlewatt" {
  name               = var.role_name
  assume_role_policy = jsonencode(local.trust_policy)
}

resource "aws_iam_role_policy" "idlewatt" {
  name   = "read"
  role   = aws_iam_role.idlewatt.id
  policy = jsonencode(local.policy)
}

# Replaces the bucket's whole policy: off unless asked for.
resource "aws_s3_bucket_policy" "billing" {
  count      = var.manage_bucket_policy ? 1 : 0
  bucket     = var.bucket
  policy     = jsonencode(local.bucket_policy)
  depends_on = [aws_iam_role.idlewatt]
}
