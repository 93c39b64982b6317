-- Tables of the programs beside this file.
CREATE DATABASE shop;
CREATE TABLE shop.sold (item INT PRIMARY KEY, pieces BIGINT NOT NULL);
INSERT INTO shop.sold VALUES (1, 0);
-- The unique key tells whether an order that got no clear answer is there.
CREATE TABLE shop.orders (id VARCHAR(64) PRIMARY KEY, piece BIGINT NOT NULL);
